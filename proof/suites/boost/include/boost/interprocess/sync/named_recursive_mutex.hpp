#pragma once
#include <outlive_objects.hpp>

namespace boost::interprocess {

class named_recursive_mutex : public outlive_objects::MutexCalls<outlive_objects::Opened<outlive::ReentrantMutex<char>>> {
public:
    using MutexCalls::MutexCalls;
};

} // namespace boost::interprocess
