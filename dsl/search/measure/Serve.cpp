// kiln-measure's side of the protocol: a line of JSON with the setup, then a line a trial; a line for each answer.
#include "dsl/generator/Load.h"
#include "dsl/search/measure/RunTrial.h"

#include <Halide.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <memory>

#include <unistd.h>

namespace kiln::search {

namespace {

class Lines {
public:
    explicit Lines(int fd) : fd_(fd) {}

    std::optional<std::string> next() {
        for (;;) {
            if (size_t end = text_.find('\n'); end != std::string::npos) {
                std::string line = text_.substr(0, end);
                text_.erase(0, end + 1);
                return line;
            }
            char block[4096];
            ssize_t n = read(fd_, block, sizeof block);
            if (n < 0 && errno == EINTR) {
                continue;
            }
            if (n <= 0) {
                return std::nullopt;
            }
            text_.append(block, static_cast<size_t>(n));
        }
    }

private:
    int fd_;
    std::string text_;
};

bool say(int fd, const nlohmann::json &json) {
    std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    for (size_t done = 0; done < text.size();) {
        ssize_t n = write(fd, text.data() + done, text.size() - done);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        done += n > 0 ? static_cast<size_t>(n) : 0;
    }
    return true;
}

nlohmann::json faults(const std::vector<Diagnostic> &diagnostics) {
    nlohmann::json list = nlohmann::json::array();
    for (const Diagnostic &d : diagnostics) {
        list.push_back(to_json(d));
    }
    return {{"diagnostics", list}};
}

} // namespace

int serve_measurements(int in, int out) {
    Lines lines(in);
    std::optional<std::string> first = lines.next();
    nlohmann::json setup = nlohmann::json::parse(first.value_or(""), nullptr, false);
    if (setup.is_discarded()) {
        return 2;
    }
    std::unique_ptr<TrialRunner> runner;
    try {
        MeasureSetup parsed = measure_setup_from_json(setup);
        load_generators(parsed.load);
        runner = std::make_unique<TrialRunner>(parsed, getppid());
    } catch (const Error &e) {
        say(out, faults(e.diagnostics));
        return 1;
    } catch (const Halide::Error &e) {
        Diagnostic d;
        d.code = "K0801";
        d.message = "Halide refused the algorithm while its reference was made";
        d.notes = {e.what()};
        say(out, faults({d}));
        return 1;
    }
    if (!say(out, {{"ready", true}})) {
        return 0;
    }
    while (std::optional<std::string> line = lines.next()) {
        nlohmann::json json = nlohmann::json::parse(*line, nullptr, false);
        if (json.is_discarded()) {
            return 2;
        }
        BuiltJob job;
        job.number = json.at("number");
        job.object = json.at("object").get<std::string>();
        job.incumbent = json.at("incumbent").get<std::string>();
        job.seed = json.at("seed");
        if (!say(out, to_json(runner->run(job)))) {
            return 0;
        }
    }
    return 0;
}

} // namespace kiln::search
