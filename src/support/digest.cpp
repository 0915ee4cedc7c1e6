#include "support/digest.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <new>

namespace opweld {

namespace {

std::string digits(XXH128_hash_t hash) {
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

XXH3_state_t* state_of(void* state) {
  return static_cast<XXH3_state_t*>(state);
}

}  // namespace

std::string digest(std::string_view text) {
  return digits(XXH3_128bits(text.data(), text.size()));
}

DigestOfParts::DigestOfParts() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(state_of(state_));
}

DigestOfParts::~DigestOfParts() {
  XXH3_freeState(state_of(state_));
}

void DigestOfParts::add(std::string_view part) {
  XXH3_128bits_update(state_of(state_), part.data(), part.size());
}

std::string DigestOfParts::text() const {
  return digits(XXH3_128bits_digest(state_of(state_)));
}

}  // namespace opweld
