#include "support/processors.h"

#include <algorithm>

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

namespace opweld {

Processors Processors::allowed() {
  Processors result;
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return result;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (CPU_ISSET(processor, &set)) result.numbers_.push_back(processor);
  }
#endif
  return result;
}

int Processors::current() {
#if defined(__linux__)
  return sched_getcpu();
#else
  return -1;
#endif
}

bool Processors::contains(int processor) const {
  return std::find(numbers_.begin(), numbers_.end(), processor) != numbers_.end();
}

Processors Processors::without(int processor) const {
  Processors rest = *this;
  std::erase(rest.numbers_, processor);
  return rest;
}

void Processors::confine([[maybe_unused]] std::thread& thread) const {
#if defined(__linux__)
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : numbers_) CPU_SET(processor, &set);
  pthread_setaffinity_np(thread.native_handle(), sizeof set, &set);
#endif
}

}  // namespace opweld
