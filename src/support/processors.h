// Which processors of the machine a thread may run on.
#pragma once

#include <thread>
#include <vector>

namespace opweld {

class Processors {
 public:
  // Those that the calling thread may run on; none where the system does not say.
  static Processors allowed();
  // The one that the calling thread runs on now; -1 where the system does not say.
  static int current();

  [[nodiscard]] const std::vector<int>& numbers() const { return numbers_; }
  [[nodiscard]] int count() const { return static_cast<int>(numbers_.size()); }
  [[nodiscard]] bool contains(int processor) const;
  [[nodiscard]] Processors without(int processor) const;
  // From now on the thread runs on these alone. Where the system refuses, it stays as it was.
  void confine(std::thread& thread) const;

 private:
  std::vector<int> numbers_;
};

}  // namespace opweld
