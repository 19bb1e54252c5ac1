#pragma once
#include <outlive_objects.hpp>

namespace boost::interprocess {

class interprocess_semaphore : public outlive_objects::SemaphoreCalls<outlive_objects::Opened<outlive::Semaphore>> {
public:
    explicit interprocess_semaphore(unsigned count) : SemaphoreCalls(outlive_objects::Unnamed{}, count) {}
};

} // namespace boost::interprocess
