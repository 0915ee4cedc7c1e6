// Teams of threads for everything that runs in a process.
//
// A program has no threads of its own: what it runs on is lent to it for one run, and the next run
// of whatever program finds the same threads, which the last one has just kept awake. Were there a
// team for each program, the workers of one would still spin on the processors that those of the
// next are woken on.
//
// Runs that do not wait for each other (of several programs by several threads, or one inside
// another, as where an observer runs a program) have a team each. There are as many teams as there
// ever were runs at once; idle ones sleep.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "support/processors.h"
#include "support/thread_team.h"

namespace opweld {

class TeamPool {
 public:
  // The one for teams of `threads` >= 1 on the processors that the calling thread may run on. It
  // lives as long as somebody holds it. Any thread may ask, and at once.
  static std::shared_ptr<TeamPool> of(int threads);

  TeamPool(int threads, Processors processors);
  TeamPool(const TeamPool&) = delete;
  TeamPool& operator=(const TeamPool&) = delete;

  // A team that nobody else has, until this is destroyed.
  class Lease {
   public:
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease();

    [[nodiscard]] ThreadTeam& team() const { return *team_; }

   private:
    friend class TeamPool;
    Lease(TeamPool& pool, std::unique_ptr<ThreadTeam> team);

    TeamPool& pool_;
    std::unique_ptr<ThreadTeam> team_;
  };

  // Any thread may, and at once; the pool must outlive what it lends.
  [[nodiscard]] Lease take();

  [[nodiscard]] int threads() const { return threads_; }
  // How many teams there are, lent or not.
  [[nodiscard]] int teams() const;

 private:
  // Whether there are more threads in so many teams than processors.
  [[nodiscard]] bool is_crowded(int lent) const;

  const int threads_;
  const Processors processors_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<ThreadTeam>> idle_;  // the latest last
  int lent_ = 0;
};

}  // namespace opweld
