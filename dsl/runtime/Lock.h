/** \file
 * A lock that needs no C++ library and no initialisation.
 */
#pragma once

#include <pthread.h>

namespace kiln::runtime {

class Lock {
public:
    explicit Lock(pthread_mutex_t &mutex) : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
    ~Lock() { pthread_mutex_unlock(&mutex_); }
    Lock(const Lock &) = delete;
    Lock &operator=(const Lock &) = delete;

private:
    pthread_mutex_t &mutex_;
};

} // namespace kiln::runtime
