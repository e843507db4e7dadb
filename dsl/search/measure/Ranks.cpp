#include "dsl/search/measure/Ranks.h"

#include "dsl/lower/Tools.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <set>
#include <thread>

#include <dlfcn.h>

namespace kiln::search {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void no_mpi(std::string why) {
    Diagnostic d;
    d.code = "K1321";
    d.message = "`mpirun` started several ranks, and this Kiln cannot join them";
    d.notes = {std::move(why)};
    d.helps = {"install Open MPI (Debian: libopenmpi-dev, openmpi-bin) and build Kiln again, or start it "
               "without mpirun"};
    throw Error(std::move(d));
}

/// libkiln_mpi.so: see mpi/kiln_mpi.c.
struct Library {
    int (*start)(int *, int *) = nullptr;
    int (*send)(int, const void *, int) = nullptr;
    int (*probe)(int *, int *) = nullptr;
    int (*receive)(int, void *, int) = nullptr;
    void (*end)() = nullptr;
    void (*abort)(int) = nullptr;

    Library() {
        const char *named = std::getenv("KILN_MPI_LIBRARY");
        fs::path path = named && *named ? fs::path(named) : kiln_root() / "lib" / "libkiln_mpi.so";
        // Global: Open MPI opens parts of itself that want its symbols.
        void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
        if (!handle) {
            no_mpi(dlerror());
        }
        auto find = [&](auto &function, const char *name) {
            function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(handle, name));
            if (!function) {
                no_mpi(fmt::format("`{}` has no `{}`", path.string(), name));
            }
        };
        find(start, "kiln_mpi_start");
        find(send, "kiln_mpi_send");
        find(probe, "kiln_mpi_probe");
        find(receive, "kiln_mpi_receive");
        find(end, "kiln_mpi_end");
        find(abort, "kiln_mpi_abort");
    }
};

struct Message {
    int from = 0;
    nlohmann::json json;
};

class MpiRanks;

/// Deals jobs out to the rank that has the fewest.
class MpiMeasurer : public Measurer {
public:
    MpiMeasurer(MpiRanks &ranks, const MeasureSetup &setup);
    ~MpiMeasurer() override;
    size_t depth() const override;
    void submit(Job job) override;
    std::optional<Outcome> next(double seconds) override;
    size_t pending() const override { return by_job_.size(); }
    void cancel() override;

private:
    MpiRanks &ranks_;
    std::map<int64_t, int> by_job_; ///< number of the job, rank
    std::map<int, size_t> load_;    ///< jobs of a rank
};

class MpiRanks : public Ranks {
public:
    MpiRanks() {
        if (!mpi_.start(&rank_, &size_)) {
            no_mpi("MPI_Init failed");
        }
    }
    ~MpiRanks() override {
        if (rank_ == 0) {
            for (int r = 1; r < size_; r++) {
                send(r, {{"over", true}});
            }
        }
        mpi_.end();
    }

    int rank() const override { return rank_; }
    int size() const override { return size_; }
    std::unique_ptr<Measurer> measurer(const MeasureSetup &setup) override {
        return std::make_unique<MpiMeasurer>(*this, setup);
    }
    void abort(int code) override { mpi_.abort(code); }

    void send(int to, const nlohmann::json &json) {
        std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
        mpi_.send(to, text.data(), static_cast<int>(text.size()));
    }

    std::optional<Message> poll() {
        int from = 0, size = 0;
        if (!mpi_.probe(&from, &size)) {
            return std::nullopt;
        }
        std::string text(static_cast<size_t>(size), '\0');
        mpi_.receive(from, text.data(), size);
        return Message{from, nlohmann::json::parse(text, nullptr, false)};
    }

    void serve(int device) override {
        std::unique_ptr<Measurer> measurer;
        for (;;) {
            bool idle = true;
            while (std::optional<Message> message = poll()) {
                idle = false;
                const nlohmann::json &json = message->json;
                if (json.contains("over")) {
                    return;
                }
                if (json.contains("setup")) {
                    MeasureSetup setup = measure_setup_from_json(json["setup"]);
                    if (setup.target.backend == Backend::Cuda) {
                        setup.device = device >= 0 ? device : local_rank() - 1;
                    }
                    try {
                        measurer = local_measurer(setup);
                    } catch (const Error &e) {
                        nlohmann::json list = nlohmann::json::array();
                        for (const Diagnostic &d : e.diagnostics) {
                            list.push_back(to_json(d));
                        }
                        send(0, {{"failed", list}});
                    }
                } else if (json.contains("cancel") && measurer) {
                    measurer->cancel();
                } else if (json.contains("job") && measurer) {
                    measurer->submit(job_from_json(json["job"]));
                }
            }
            if (measurer && measurer->pending() > 0) {
                if (std::optional<Outcome> outcome = measurer->next(0.002)) {
                    send(0, {{"outcome", to_json(*outcome)}});
                }
            } else if (idle) {
                std::this_thread::sleep_for(std::chrono::milliseconds(2));
            }
        }
    }

private:
    Library mpi_;
    int rank_ = 0, size_ = 1;

    /// Among the ranks of this host, of which rank 0 measures nothing; hosts without rank 0 start at 0 too.
    static int local_rank() {
        const char *text = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK");
        int local = text ? std::atoi(text) : 1;
        return std::max(local, 1);
    }
};

MpiMeasurer::MpiMeasurer(MpiRanks &ranks, const MeasureSetup &setup) : ranks_(ranks) {
    for (int r = 1; r < ranks_.size(); r++) {
        load_[r] = 0;
        ranks_.send(r, {{"setup", to_json(setup)}});
    }
}

MpiMeasurer::~MpiMeasurer() {
    cancel();
}

size_t MpiMeasurer::depth() const {
    return 3 * load_.size();
}

void MpiMeasurer::submit(Job job) {
    auto least = std::min_element(load_.begin(), load_.end(),
                                  [](const auto &a, const auto &b) { return a.second < b.second; });
    least->second++;
    by_job_[job.number] = least->first;
    ranks_.send(least->first, {{"job", to_json(job)}});
}

std::optional<Outcome> MpiMeasurer::next(double seconds) {
    auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    do {
        while (std::optional<Message> message = ranks_.poll()) {
            if (message->json.contains("failed")) {
                std::vector<Diagnostic> diagnostics;
                for (const nlohmann::json &d : message->json["failed"]) {
                    diagnostics.push_back(diagnostic_from_json(d));
                }
                throw Error(std::move(diagnostics));
            }
            Outcome outcome = outcome_from_json(message->json.at("outcome"));
            auto job = by_job_.find(outcome.number);
            if (job != by_job_.end()) { // else it was cancelled
                load_[job->second]--;
                by_job_.erase(job);
                return outcome;
            }
        }
        if (by_job_.empty()) {
            return std::nullopt;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    } while (std::chrono::steady_clock::now() < end);
    return std::nullopt;
}

void MpiMeasurer::cancel() {
    if (by_job_.empty()) {
        return;
    }
    by_job_.clear();
    for (auto &[rank, load] : load_) {
        load = 0;
        ranks_.send(rank, {{"cancel", true}});
    }
}

} // namespace

std::unique_ptr<Ranks> Ranks::join() {
    const char *size = std::getenv("OMPI_COMM_WORLD_SIZE");
    return size && std::atoi(size) > 1 ? std::make_unique<MpiRanks>() : nullptr;
}

} // namespace kiln::search
