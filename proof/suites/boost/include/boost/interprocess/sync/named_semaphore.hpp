#pragma once
#include <outlive_objects.hpp>

namespace boost::interprocess {

class named_semaphore : public outlive_objects::SemaphoreCalls<outlive_objects::Opened<outlive::Semaphore>> {
public:
    using SemaphoreCalls::SemaphoreCalls;
};

} // namespace boost::interprocess
