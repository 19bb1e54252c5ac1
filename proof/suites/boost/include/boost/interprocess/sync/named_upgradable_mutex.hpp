#pragma once
#include <outlive_objects.hpp>

namespace boost::interprocess {

class named_upgradable_mutex : public outlive_objects::UpgradableCalls<outlive_objects::Opened<outlive::RwLock<char>>> {
public:
    using UpgradableCalls::UpgradableCalls;
};

} // namespace boost::interprocess
