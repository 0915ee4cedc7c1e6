#include "support/team_pool.h"

#include <map>
#include <utility>

namespace opweld {

namespace {

// Pools by threads and processors. It holds none of them: a pool goes with the last that uses it.
struct Pools {
  std::mutex mutex;
  std::map<std::pair<int, std::vector<int>>, std::weak_ptr<TeamPool>> known;
};

}  // namespace

std::shared_ptr<TeamPool> TeamPool::of(int threads) {
  static Pools pools;
  Processors processors = Processors::allowed();
  const std::lock_guard lock(pools.mutex);
  std::erase_if(pools.known, [](const auto& each) { return each.second.expired(); });
  std::weak_ptr<TeamPool>& known = pools.known[{threads, processors.numbers()}];
  std::shared_ptr<TeamPool> pool = known.lock();
  if (pool == nullptr) {
    pool = std::make_shared<TeamPool>(threads, std::move(processors));
    known = pool;
  }
  return pool;
}

TeamPool::TeamPool(int threads, Processors processors)
    : threads_(threads), processors_(std::move(processors)) {}

TeamPool::Lease TeamPool::take() {
  std::unique_ptr<ThreadTeam> team;
  bool crowded = false;
  {
    const std::lock_guard lock(mutex_);
    crowded = is_crowded(++lent_);
    if (!idle_.empty()) {
      team = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (team == nullptr) team = std::make_unique<ThreadTeam>(threads_, processors_);
  team->expect_crowd(crowded);
  return {*this, std::move(team)};
}

bool TeamPool::is_crowded(int lent) const {
  return processors_.count() > 0 && lent * threads_ > processors_.count();
}

int TeamPool::teams() const {
  const std::lock_guard lock(mutex_);
  return lent_ + static_cast<int>(idle_.size());
}

TeamPool::Lease::Lease(TeamPool& pool, std::unique_ptr<ThreadTeam> team)
    : pool_(pool), team_(std::move(team)) {}

TeamPool::Lease::~Lease() {
  const std::lock_guard lock(pool_.mutex_);
  pool_.idle_.push_back(std::move(team_));
  --pool_.lent_;
}

}  // namespace opweld
