/** \file
 * A kiln-measure process as an object: started when it is needed, started again when it has died.
 */
#pragma once

#include "dsl/search/measure/RunTrial.h"

#include <atomic>
#include <string>

namespace kiln::search {

class Worker {
public:
    explicit Worker(const MeasureSetup &setup) : setup_(setup) {}
    ~Worker() { stop(); }
    Worker(const Worker &) = delete;
    Worker &operator=(const Worker &) = delete;

    /// Starts it, unless it runs. Throws Error K1320 where it cannot be, and what it says of the setup.
    void start();
    /// A dead or silent worker is Lost, and started again with the next call.
    Outcome run(const BuiltJob &job);
    /// Ends it, with what it runs; on the thread that runs it.
    void stop();
    /// Ends what it runs: `run` then returns a lost trial. From any thread.
    void interrupt();

private:
    const MeasureSetup &setup_;
    std::atomic<pid_t> pid_{0};
    int to_ = -1, from_ = -1;
    std::string buffer_;

    bool send(const std::string &line);
    /// The next line within `seconds`; "" where it is gone or silent.
    std::string receive(double seconds);
};

} // namespace kiln::search
