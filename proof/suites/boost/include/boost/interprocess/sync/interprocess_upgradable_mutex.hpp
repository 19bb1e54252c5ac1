#pragma once
#include <outlive_objects.hpp>

namespace boost::interprocess {

class interprocess_upgradable_mutex : public outlive_objects::UpgradableCalls<outlive_objects::Opened<outlive::RwLock<char>>> {
public:
    interprocess_upgradable_mutex() : UpgradableCalls(outlive_objects::Unnamed{}) {}
};

} // namespace boost::interprocess
