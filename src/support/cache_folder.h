// Where Opweld keeps between processes what it has found out.
#pragma once

#include <string>

namespace opweld {

// OPWELD_CACHE_DIR, else ~/.cache/opweld; empty where there is no home either, and then nothing is
// kept. The folder need not exist.
std::string cache_folder();

}  // namespace opweld
