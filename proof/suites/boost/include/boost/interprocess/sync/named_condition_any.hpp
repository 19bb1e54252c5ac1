#pragma once
#include <boost/interprocess/detail/interprocess_tester.hpp>
#include <outlive_objects.hpp>

namespace boost::interprocess {

/* Outlive's takes a mutex of any kind. */
class named_condition_any : public outlive_objects::ConditionCalls<outlive_objects::Opened<outlive::Condvar>> {
public:
    using ConditionCalls::ConditionCalls;
};

} // namespace boost::interprocess
