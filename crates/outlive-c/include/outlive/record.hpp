/* Structs of one's own in shared memory, with locks in them. */
#ifndef OUTLIVE_RECORD_HPP
#define OUTLIVE_RECORD_HPP

#include <bit>
#include <functional>
#include <initializer_list>

#include "lock.hpp"

namespace outlive {

/** Where in a `T` a primitive lies: `&T::lock`. */
template <class T> class Place {
public:
    template <class Primitive>
    Place(Primitive T::*member) noexcept
        /* A pointer to a data member is its offset, on every system that Outlive runs on. */
        : place_{static_cast<size_t>(std::bit_cast<std::ptrdiff_t>(member)), Primitive::kind, number<Primitive>()} {}

private:
    /* The number of the primitives that have one: permits, seats, a ceiling. */
    template <class Primitive> static constexpr uint32_t number() {
        if constexpr (requires { Primitive::number; }) return Primitive::number;
        return 0;
    }
    outlive_place_t place_;
};

/** A struct in shared memory: zeroed, and initialised by its maker before another process sees it.
 * Fields that no lock guards have to be atomic. */
template <class T> class Record {
    static_assert(std::is_standard_layout_v<T> && std::is_trivially_destructible_v<T> && !std::is_pointer_v<T>,
                  "a record is of standard layout, trivially destructible, and no pointer");
    static_assert(alignof(T) <= 4096);

public:
    /** Opens the record of that name, or makes it: `open_or_create(domain, "line", {&Line::lock,
     * &Line::full}, [](Line &line) { line.length = 7; })`. A program with another idea of the
     * struct is refused: OUTLIVE_OTHER_TYPE. `fill` must not throw, and may be called twice, for
     * two files of which one is thrown away. */
    template <class Fill = void (*)(T &)>
    static expected<Record> open_or_create(const Domain &domain, const std::string &name,
                                           std::initializer_list<Place<T>> places, Fill fill = [](T &) {}) {
        return opened(OUTLIVE_OPEN_OR_CREATE, domain, name, places, fill);
    }
    /** Opens the record of that name; ENOENT: there is none. */
    static expected<Record> open(const Domain &domain, const std::string &name, std::initializer_list<Place<T>> places) {
        return opened(OUTLIVE_OPEN, domain, name, places, [](T &) {});
    }
    /** Makes a new record of that name; EEXIST: the name is in use. */
    template <class Fill = void (*)(T &)>
    static expected<Record> create_new(const Domain &domain, const std::string &name,
                                       std::initializer_list<Place<T>> places, Fill fill = [](T &) {}) {
        return opened(OUTLIVE_CREATE_NEW, domain, name, places, fill);
    }

    T &operator*() const noexcept { return *static_cast<T *>(data_.get()); }
    T *operator->() const noexcept { return static_cast<T *>(data_.get()); }

private:
    explicit Record(void *data) : data_(data) {}

    template <class Fill>
    static expected<Record> opened(outlive_opening_t how, const Domain &domain, const std::string &name,
                                   std::initializer_list<Place<T>> places, Fill fill) {
        static_assert(sizeof(Place<T>) == sizeof(outlive_place_t));
        auto init = [](void *data, void *argument) noexcept {
            (*static_cast<Fill *>(argument))(*static_cast<T *>(data));
        };
        void *data = nullptr;
        int code = outlive_record_open(domain.raw(), name.c_str(), how, sizeof(T),
                                       reinterpret_cast<const outlive_place_t *>(places.begin()), places.size(), init,
                                       std::addressof(fill), &data);
        if (code != 0) return Failure::last(code);
        return Record(data);
    }

    detail::Handle<void, outlive_record_close> data_;
};

} // namespace outlive

#endif
