#pragma once
#include <outlive_objects.hpp>

namespace boost::interprocess {

class interprocess_sharable_mutex : public outlive_objects::SharableCalls<outlive_objects::Opened<outlive::RwLock<char>>> {
public:
    interprocess_sharable_mutex() : SharableCalls(outlive_objects::Unnamed{}) {}
};

} // namespace boost::interprocess
