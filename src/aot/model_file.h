// Compiled models as files: written by the compiler, run without it.
//
// What is read is an Executable like any other: the same kernels, bit for bit, the same plans and
// the same errors. It needs neither LLVM nor what reads ONNX. The code in a file is run as it is,
// so a file is to be trusted like a shared library; damaged ones are told apart by digests, and no
// bytes whatever crash the reader.
#pragma once

#include <string>

#include "aot/record.h"
#include "runtime/executable.h"
#include "support/expected.h"
#include "support/mapped_file.h"

namespace opweld::aot {

// Writes `path`, whole or not at all. The kernels must have kept their objects
// (CompileOptions::keep_objects), and `origin.features` be all that their code may use. A usage
// error where the model cannot be a file: a custom operator of a plugin is left in it.
//
// `account` is JSON, what is told of the model at some sizes, and `verdicts` what it is told from
// (report/account_record.h). Both are kept as they are, and may be empty.
Status write_model(const std::string& path, const Executable& executable, Origin origin,
                   const std::string& account, const std::string& verdicts);

struct LoadOptions {
  int threads = 0;             // to run on, at most 1024; 0: one for each processor there is
  bool check_weights = false;  // compare the digest of the weights, too, which reads all of them
  // Off for those who look at files that are made to be wrong.
  bool check_digests = true;
  bool check_processor = true;
};

struct LoadedModel {
  Executable executable;
  Origin origin;
  std::string account;   // as it was given to write_model
  std::string verdicts;  // likewise
};

// Maps the file: weights are used where they lie and read from the disk as they are needed. Nobody
// may change the file while the model lives. Errors begin with the path.
Expected<LoadedModel> load_model_file(const std::string& path, const LoadOptions& options = {});

// The same of bytes at an address that is a multiple of 64.
Expected<LoadedModel> read_model(const SharedBytes& file, const LoadOptions& options = {});

}  // namespace opweld::aot
