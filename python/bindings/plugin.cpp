#include "opweld/plugin.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"

namespace opweld::python {

void bind_plugin(nb::module_& module) {
  nb::class_<PluginInfo>(module, "PluginInfo", "A library with custom operators.")
      .def_ro("name", &PluginInfo::name)
      .def_ro("version", &PluginInfo::version, "Empty if it tells none.")
      .def_ro("path", &PluginInfo::path)
      .def_ro("operators", &PluginInfo::operators, "Names as in models: 'com.example.Squash'.")
      .def("__repr__", [](const PluginInfo& plugin) {
        return "<opweld plugin '" + plugin.name + "' with " +
               std::to_string(plugin.operators.size()) + " operators>";
      });
  module.def(
      "load_plugin",
      [](const std::string& path) {
        return value_or_raise([&] {
          const nb::gil_scoped_release release;
          return load_plugin(path);
        }());
      },
      nb::arg("path"),
      "Loads a shared library and makes its operators known to models that are loaded from then\n"
      "on, for as long as the process lives. Again, it gives the same answer. opweld.Error says\n"
      "what is wrong with a library, and then none of its operators is known.");
  module.def("loaded_plugins", &loaded_plugins, "In the order in which they were loaded.");
}

}  // namespace opweld::python
