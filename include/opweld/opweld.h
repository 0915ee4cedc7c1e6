// Opweld from C++: build or load a model, compile it, run it, read what was fused.
#pragma once

#include "opweld/account.h"
#include "opweld/functions.h"
#include "opweld/graph_builder.h"
#include "opweld/model.h"
#include "opweld/plugin.h"
#include "opweld/program.h"
#include "opweld/result.h"
#include "opweld/tensor.h"
#include "opweld/verification.h"
