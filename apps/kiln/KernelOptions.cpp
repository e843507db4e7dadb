#include "apps/kiln/KernelOptions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kiln::cli {

void KernelOptions::define(CLI::App &app, const std::string &verb, bool several, const std::string &works) {
    app_ = &app;
    app.add_option("GENERATOR", generator_, "The algorithm")->required()->type_name("GENERATOR");
    variants_.define(app, several);
    app.add_option("-w,--work", works_, "A problem of the generator, by name; may be repeated" + works)
        ->type_name("NAME")
        ->allow_extra_args(false);
    app.add_option("--archive", archive_, verb + " this NAME.a that is built already")->type_name("FILE");
    app.add_option("--threads", threads_, "Threads of a CPU kernel")->type_name("N");
    app.add_option("--device", device_, "Which GPU, from 0")->type_name("N");
}

BuildRequest KernelOptions::build(const std::vector<std::filesystem::path> &load,
                                  std::map<std::string, std::string> &sources) const {
    load_generators(load);
    require_generator(generator_);
    BuildRequest build;
    build.generator = generator_;
    build.load = load;
    build.params = variants_.params();
    build.variants = variants_.requests(*app_, sources);
    return build;
}

std::string KernelOptions::command_line() const {
    std::string text = fmt::format("kiln {} {}", app_->get_name(), generator_);
    for (const CLI::Option *option : app_->parse_order()) {
        if (option->nonpositional() && option->get_lnames().front() != "output") {
            text += fmt::format(" --{}", option->get_lnames().front());
            if (option->get_expected_max() > 0) {
                text += fmt::format(" {}", fmt::join(option->results(), " "));
            }
        }
    }
    return text;
}

} // namespace kiln::cli
