// The shared object that `-p` and load_plugin open: it makes the name Kiln known to Halide, and does nothing else.
#include "dsl/search/plugin/Autoschedule.h"

namespace {

struct Register {
    Register() { Halide::Pipeline::add_autoscheduler("Kiln", kiln::search::autoschedule); }
} register_kiln;

} // namespace
