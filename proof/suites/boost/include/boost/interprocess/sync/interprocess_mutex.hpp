#pragma once
#include <outlive_objects.hpp>

namespace boost::interprocess {

class interprocess_mutex : public outlive_objects::MutexCalls<outlive_objects::Opened<outlive::Mutex<char>>> {
public:
    interprocess_mutex() : MutexCalls(outlive_objects::Unnamed{}) {}
};

} // namespace boost::interprocess
