// Builders in threads, one thread that times, and queues between them.
#include "dsl/search/measure/BuildTrial.h"
#include "dsl/search/measure/Worker.h"
#include "dsl/support/Files.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

namespace kiln::search {

namespace {

namespace fs = std::filesystem;

class LocalMeasurer : public Measurer {
public:
    LocalMeasurer(const MeasureSetup &setup, int builders) : setup_(setup), worker_(setup_) {
        // Children that die while they are written to are reported, not fatal. Set once: threads start processes.
        signal(SIGPIPE, SIG_IGN);
        worker_.start();
        unsigned cores = std::max(1u, std::thread::hardware_concurrency());
        int count = builders > 0 ? builders : static_cast<int>(std::clamp(cores / 2 + 1, 1u, 12u));
        for (int i = 0; i < count; i++) {
            builders_.emplace_back([this] { build_loop(); });
        }
        timer_ = std::thread([this] { time_loop(); });
    }

    ~LocalMeasurer() override {
        {
            std::lock_guard lock(mutex_);
            closing_ = true;
            to_build_.clear();
            to_time_.clear();
        }
        worker_.interrupt();
        changed_.notify_all();
        for (std::thread &t : builders_) {
            t.join();
        }
        timer_.join();
    }

    size_t depth() const override { return builders_.size() + 2; }

    void submit(Job job) override {
        std::lock_guard lock(mutex_);
        pending_++;
        to_build_.push_back(std::move(job));
        changed_.notify_all();
    }

    std::optional<Outcome> next(double seconds) override {
        std::unique_lock lock(mutex_);
        auto over = [&] { return !done_.empty() || pending_ == 0; };
        finished_.wait_for(lock, std::chrono::duration<double>(seconds), over);
        if (done_.empty()) {
            return std::nullopt;
        }
        Outcome outcome = std::move(done_.front());
        done_.pop_front();
        pending_--;
        return outcome;
    }

    size_t pending() const override {
        std::lock_guard lock(mutex_);
        return pending_;
    }

    void cancel() override {
        std::lock_guard lock(mutex_);
        pending_ -= to_build_.size() + to_time_.size() + done_.size();
        to_build_.clear();
        to_time_.clear();
        done_.clear();
        generation_++;
        pending_ = 0;
        worker_.interrupt();
    }

private:
    struct Built {
        Job job;
        BuiltTrial built;
        fs::path incumbent;
        int64_t generation = 0;
    };

    const MeasureSetup setup_;
    TemporaryFolder folder_;
    Worker worker_;
    mutable std::mutex mutex_;
    std::condition_variable changed_, finished_;
    std::deque<Job> to_build_;
    std::deque<Built> to_time_;
    std::deque<Outcome> done_;
    std::set<std::string> building_; ///< incumbents that a thread is at
    std::vector<std::thread> builders_;
    std::thread timer_;
    size_t pending_ = 0;
    int64_t generation_ = 0; ///< rises with each cancel(): what was begun before is of no interest
    bool closing_ = false;

    void give_back(Outcome outcome, int64_t generation) {
        std::lock_guard lock(mutex_);
        if (generation == generation_) {
            done_.push_back(std::move(outcome));
        }
        finished_.notify_all();
    }

    void build_loop() {
        for (;;) {
            Built built;
            {
                std::unique_lock lock(mutex_);
                changed_.wait(lock, [&] { return closing_ || !to_build_.empty(); });
                if (closing_) {
                    return;
                }
                built.job = std::move(to_build_.front());
                to_build_.pop_front();
                built.generation = generation_;
            }
            built.built = build_trial(setup_, built.job.schedule, built.job.knobs, folder_.path());
            if (!built.built.object.empty() && !built.job.incumbent.empty()) {
                built.incumbent = incumbent_object(built.job);
            }
            if (built.built.object.empty()) {
                built.built.outcome.number = built.job.number;
                built.built.outcome.seed = built.job.seed;
                give_back(std::move(built.built.outcome), built.generation);
                continue;
            }
            std::lock_guard lock(mutex_);
            if (built.generation == generation_) {
                to_time_.push_back(std::move(built));
            }
            changed_.notify_all();
        }
    }

    /// Measured before, and so there already, unless another rank measured it: then one thread builds it.
    fs::path incumbent_object(const Job &job) {
        std::string key = job.incumbent;
        for (const auto &[name, value] : job.incumbent_knobs) {
            key += "\n" + name + "=" + value;
        }
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [&] { return closing_ || !building_.count(key); });
            building_.insert(key);
        }
        BuiltTrial built = build_trial(setup_, job.incumbent, job.incumbent_knobs, folder_.path());
        std::lock_guard lock(mutex_);
        building_.erase(key);
        changed_.notify_all();
        return built.object;
    }

    void time_loop() {
        for (;;) {
            Built built;
            {
                std::unique_lock lock(mutex_);
                changed_.wait(lock, [&] { return closing_ || !to_time_.empty(); });
                if (closing_) {
                    worker_.stop();
                    return;
                }
                built = std::move(to_time_.front());
                to_time_.pop_front();
            }
            BuiltJob job = {built.job.number, built.built.object, built.incumbent, built.job.seed};
            Outcome measured = worker_.run(job);
            const Outcome &b = built.built.outcome;
            measured.build_s = b.build_s;
            measured.registers = b.registers;
            measured.spill_bytes = b.spill_bytes;
            measured.shared_bytes = b.shared_bytes;
            measured.remarks = b.remarks;
            if (measured.status != Status::Ok || measured.times.stopped) {
                // Never an incumbent: its files are of no more use.
                std::error_code ignored;
                fs::remove_all(built.built.object.parent_path(), ignored);
            }
            give_back(std::move(measured), built.generation);
        }
    }
};

} // namespace

std::unique_ptr<Measurer> local_measurer(const MeasureSetup &setup, int builders) {
    return std::make_unique<LocalMeasurer>(setup, builders);
}

} // namespace kiln::search
