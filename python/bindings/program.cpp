#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "arrays.h"

namespace opweld::python {

namespace {

nb::tuple run(const Program& program, const nb::list& items, bool bits) {
  RunReport report;
  const InputArrays arrays(items);
  Result<std::vector<HostTensor>> outputs = std::vector<HostTensor>();
  {
    const nb::gil_scoped_release release;
    outputs = program.run(arrays.views(), &report);
  }
  nb::list results;
  for (const HostTensor& output : value_or_raise(std::move(outputs))) {
    results.append(to_array(output, bits));
  }
  return nb::make_tuple(results, report, arrays.copies());
}

// Memory that the caller has checked to be dense, row-major, and of this program's dtypes.
template <typename View>
std::vector<View> views_at(const std::vector<TensorInfo>& infos, const nb::list& addresses,
                           const nb::list& sizes) {
  if (nb::len(addresses) != nb::len(sizes) || nb::len(sizes) != infos.size()) {
    raise_usage("a run takes an address and the sizes of every tensor");
  }
  std::vector<View> views;
  for (std::size_t i = 0; i < infos.size(); ++i) {
    Sizes numbers = to_numbers(sizes[i]);
    std::int64_t count = 1;
    for (const std::int64_t each : numbers) count *= each;
    const auto width = static_cast<std::size_t>(byte_size(infos[i].dtype));
    auto* data = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(addresses[i]));
    views.emplace_back(infos[i].dtype, std::move(numbers), data,
                       static_cast<std::size_t>(count) * width);
  }
  return views;
}

// What stays the same between runs of one program.
class AddressRunner {
 public:
  AddressRunner(const Program& program, std::vector<std::size_t> written_back)
      : program_(program),
        inputs_(program.inputs()),
        outputs_(program.outputs()),
        written_back_(std::move(written_back)) {
    for (const std::size_t each : written_back_) {
      if (each >= outputs_.size()) raise_usage("an output that is written back is none");
    }
  }

  [[nodiscard]] nb::list output_sizes(const nb::list& inputs) const {
    std::vector<Sizes> sizes;
    for (const nb::handle each : inputs) sizes.push_back(to_numbers(each));
    nb::list results;
    for (const Sizes& each : value_or_raise(program_.output_sizes(sizes))) {
      nb::list numbers;
      for (const std::int64_t size : each) numbers.append(nb::int_(size));
      results.append(nb::tuple(numbers));
    }
    return results;
  }

  void run(const nb::list& inputs, const nb::list& input_sizes, const nb::list& outputs,
           const nb::list& output_sizes) const {
    const auto read = views_at<TensorView>(inputs_, inputs, input_sizes);
    const auto written = views_at<MutableTensorView>(outputs_, outputs, output_sizes);
    Result<void> done;
    {
      const nb::gil_scoped_release release;
      done = run_and_write_back(read, written);
    }
    value_or_raise(std::move(done));
  }

 private:
  [[nodiscard]] Result<void> run_and_write_back(
      const std::vector<TensorView>& read, const std::vector<MutableTensorView>& written) const {
    if (written_back_.empty()) return program_.run_into(read, written);
    std::vector<MutableTensorView> places = written;
    std::vector<HostTensor> made;
    for (const std::size_t each : written_back_) {
      Result<HostTensor> tensor = HostTensor::allocate(written[each].dtype, written[each].sizes);
      if (!tensor) return tensor.error();
      made.push_back(std::move(*tensor));
      places[each] = made.back().mutable_view();
    }
    Result<void> done = program_.run_into(read, places);
    if (!done) return done;
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (made[i].num_bytes() == 0) continue;
      std::memcpy(written[written_back_[i]].data, made[i].data(), made[i].num_bytes());
    }
    return done;
  }

  Program program_;
  std::vector<TensorInfo> inputs_;
  std::vector<TensorInfo> outputs_;
  std::vector<std::size_t> written_back_;
};

nb::list edges_of(const Account& account) {
  nb::list edges;
  for (const EdgeAccount& edge : account.edges) {
    nb::dict entry;
    entry["from"] = edge.from;
    entry["to"] = edge.to;
    entry["fused"] = edge.fused;
    entry["kernel"] = edge.kernel;
    entry["code"] = edge.code;
    entry["sentence"] = edge.sentence;
    entry["detail"] = edge.detail;
    entry["remedy"] = edge.remedy;
    entry["bytes"] = edge.bytes;
    edges.append(entry);
  }
  return edges;
}

nb::list kernels_of(const Account& account) {
  nb::list kernels;
  for (const KernelAccount& kernel : account.kernels) {
    nb::dict entry;
    entry["name"] = kernel.name;
    entry["kind"] = kernel.kind;
    entry["operators"] = kernel.operators;
    entry["layer"] = kernel.layer;
    entry["sources"] = kernel.sources;
    entry["bytes_read"] = kernel.bytes_read;
    entry["bytes_written"] = kernel.bytes_written;
    kernels.append(entry);
  }
  return kernels;
}

void save(const Program& program, const std::string& path) {
  Result<void> saved;
  {
    const nb::gil_scoped_release release;
    saved = program.save(path);
  }
  value_or_raise(std::move(saved));
}

Program load(const std::string& path, int threads) {
  Result<Program> loaded = Error{};
  {
    const nb::gil_scoped_release release;
    loaded = Program::load(path, threads);
  }
  return value_or_raise(std::move(loaded));
}

nb::dict account_of(const Program& program, const SymbolValues& values) {
  const Account account = value_or_raise(program.account(values));
  nb::dict result;
  result["kernels"] = kernels_of(account);
  result["edges"] = edges_of(account);
  result["log"] = account.log;
  result["tuning"] = account.tuning;
  result["notes"] = account.notes;
  result["bytes_read"] = account.bytes_read;
  result["bytes_written"] = account.bytes_written;
  result["launches"] = account.launches;
  result["barriers"] = account.barriers;
  return result;
}

}  // namespace

void bind_program(nb::module_& module) {
  module.def("load_program", &load, nb::arg("path"), nb::arg("threads") = 0,
             "Reads what Program.save() or `opweld compile` wrote.");
  nb::class_<RunReport>(module, "RunReport", "What one run did.")
      .def_ro("kernels", &RunReport::kernels)
      .def_ro("bytes_read", &RunReport::bytes_read)
      .def_ro("bytes_written", &RunReport::bytes_written)
      .def_ro("arena_bytes", &RunReport::arena_bytes, "Memory for intermediates.")
      .def_ro("kernel_seconds", &RunReport::kernel_seconds, "By kernel, in order of the account.")
      .def_ro("launches", &RunReport::launches)
      .def_ro("barriers", &RunReport::barriers);

  nb::class_<Program>(module, "Program", "A compiled model; opweld.Program is what users call.")
      .def("inputs", &Program::inputs)
      .def("outputs", &Program::outputs)
      .def(
          "run", &run, nb::arg("inputs"), nb::arg("bits") = false,
          nb::sig("def run(self, inputs: list[object], bits: bool = False) -> "
                  "tuple[list[object], RunReport, int]"),
          "Arrays in the order of inputs(), or pairs of an array and a dtype to read its bits as.\n"
          "Gives arrays that own their memory, what the run did, and how many inputs were copied\n"
          "since they were not dense. `bits` shows bf16 as u16.")
      .def("save", &save, nb::arg("path"),
           "Writes it to a file that load_program() runs without compiling.")
      .def("account", &account_of, nb::arg("values"),
           nb::sig("def account(self, values: dict[str, int]) -> dict[str, object]"))
      .def(
          "account_json",
          [](const Program& program, const SymbolValues& values) {
            return value_or_raise(program.account_json(values));
          },
          nb::arg("values"))
      .def("compile_seconds", &Program::compile_seconds)
      .def("threads", &Program::threads);

  nb::class_<AddressRunner>(
      module, "AddressRunner",
      "Runs a program on memory given by address, for callers that know their\n"
      "tensors to be dense, aligned and of the program's dtypes. Outputs that are\n"
      "`written_back`, by their places, may lie where inputs do: they are made elsewhere, and\n"
      "copied there when the run is over and has not failed.")
      .def(nb::init<const Program&, std::vector<std::size_t>>(), nb::arg("program"),
           nb::arg("written_back") = std::vector<std::size_t>())
      .def("output_sizes", &AddressRunner::output_sizes, nb::arg("inputs"),
           nb::sig("def output_sizes(self, inputs: list[tuple[int, ...]]) -> "
                   "list[tuple[int, ...]]"))
      .def("run", &AddressRunner::run, nb::arg("inputs"), nb::arg("input_sizes"),
           nb::arg("outputs"), nb::arg("output_sizes"),
           nb::sig("def run(self, inputs: list[int], input_sizes: list[tuple[int, ...]], "
                   "outputs: list[int], output_sizes: list[tuple[int, ...]]) -> None"));
}

}  // namespace opweld::python
