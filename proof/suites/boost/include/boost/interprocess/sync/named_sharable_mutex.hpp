#pragma once
#include <outlive_objects.hpp>

namespace boost::interprocess {

class named_sharable_mutex : public outlive_objects::SharableCalls<outlive_objects::Opened<outlive::RwLock<char>>> {
public:
    using SharableCalls::SharableCalls;
};

} // namespace boost::interprocess
