#pragma once
#include <outlive_objects.hpp>

namespace boost::interprocess {

class interprocess_condition : public outlive_objects::ConditionCalls<outlive_objects::Opened<outlive::Condvar>> {
public:
    interprocess_condition() : ConditionCalls(outlive_objects::Unnamed{}) {}
};

} // namespace boost::interprocess
