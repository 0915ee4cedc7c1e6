#include "compiled_account.h"

#include <utility>

namespace opweld {

AccountRecord account_record(const Compiled& compiled, std::string model, Bindings sizes) {
  AccountRecord record{std::move(model), std::move(sizes), {},
                       compiled.history, compiled.notes,   {}};
  const auto versions = compiled.executable.versions();
  for (std::size_t i = 0; i < versions.size(); ++i) {
    record.plans.push_back(versions[i].plan);
    record.tuning.push_back(compiled.tuning_log(i));
  }
  return record;
}

}  // namespace opweld
