#pragma once
#include <outlive_objects.hpp>

namespace boost::interprocess {

class interprocess_recursive_mutex : public outlive_objects::MutexCalls<outlive_objects::Opened<outlive::ReentrantMutex<char>>> {
public:
    interprocess_recursive_mutex() : MutexCalls(outlive_objects::Unnamed{}) {}
};

} // namespace boost::interprocess
