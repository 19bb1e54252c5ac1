/* Descriptions of payloads' types, the same for all languages. */
#ifndef OUTLIVE_DESCRIBED_HPP
#define OUTLIVE_DESCRIBED_HPP

#include <array>
#include <cstddef>
#include <type_traits>

#include <outlive.h>

namespace outlive {

/** The description of a `T`: `get()`. OUTLIVE_DESCRIBE makes it. */
template <class T> struct Description;

/** Returns the description of a `T`, for the options of a topic, queue or service: `options.payload
 * = &outlive::description_of<Pose>()`. */
template <class T> const outlive_payload_t &description_of() { return Description<T>::get(); }

/** Returns the description of messages that are any number of `T`s. */
template <class T> outlive_payload_t slice_description_of() {
    outlive_payload_t payload = Description<T>::get();
    payload.is_slice = 1;
    return payload;
}

/** Returns the description of messages in an encoding of their own, one of the OUTLIVE_ENCODING
 * numbers; the name says of what, and is kept as long as the description. */
constexpr outlive_payload_t encoded(uint32_t encoding, const char *name) {
    return {name, 0, 0, encoding, 0, nullptr, 0};
}

/** An argument of `State<T>`'s openings: the state has the description of a `T`. */
struct Described {};
inline constexpr Described described{};

namespace detail {

template <class T> struct Items {
    using Item = T;
    static constexpr size_t rank = 0;
    static constexpr void extents(uint32_t *) {}
};
template <class T, size_t N> struct Items<T[N]> {
    using Item = typename Items<T>::Item;
    static constexpr size_t rank = Items<T>::rank + 1;
    static constexpr void extents(uint32_t *to) {
        *to = N;
        Items<T>::extents(to + 1);
    }
};
template <class T, size_t N> struct Items<std::array<T, N>> : Items<T[N]> {};

template <class T> constexpr uint32_t type_number() {
    if constexpr (std::is_same_v<T, bool>) return OUTLIVE_TYPE_BOOL;
    else if constexpr (std::is_same_v<T, char> || std::is_same_v<T, std::byte>) return OUTLIVE_TYPE_U8;
    else if constexpr (std::is_enum_v<T>) return type_number<std::underlying_type_t<T>>();
    else if constexpr (std::is_floating_point_v<T>) {
        static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a floating-point number has 32 or 64 bits");
        return sizeof(T) == 4 ? OUTLIVE_TYPE_F32 : OUTLIVE_TYPE_F64;
    } else if constexpr (std::is_integral_v<T>) {
        constexpr uint32_t base = sizeof(T) == 1   ? OUTLIVE_TYPE_U8
                                  : sizeof(T) == 2 ? OUTLIVE_TYPE_U16
                                  : sizeof(T) == 4 ? OUTLIVE_TYPE_U32
                                                   : OUTLIVE_TYPE_U64;
        return base + (std::is_signed_v<T> ? 1 : 0);
    } else return OUTLIVE_TYPE_STRUCT;
}

template <class M> outlive_field_t field(const char *name, size_t offset) {
    using Item = typename Items<std::remove_cv_t<M>>::Item;
    outlive_field_t field{name, static_cast<uint32_t>(offset), type_number<Item>(), {0, 0, 0, 0}, nullptr};
    static_assert(Items<std::remove_cv_t<M>>::rank <= 4, "an array has at most 4 extents");
    Items<std::remove_cv_t<M>>::extents(field.extents);
    if constexpr (type_number<Item>() == OUTLIVE_TYPE_STRUCT) field.nested = &Description<Item>::get();
    return field;
}

template <class M> outlive_field_t tail_field(const char *name, size_t offset) {
    static_assert(Items<M>::rank <= 3, "an item of a tail has at most 3 extents");
    outlive_field_t field = detail::field<M>(name, offset);
    for (size_t at = Items<M>::rank; at > 0; at -= 1) field.extents[at] = field.extents[at - 1];
    field.extents[0] = OUTLIVE_TAIL;
    return field;
}

} // namespace detail
} // namespace outlive

/* `m(t, a), m(t, b), ...`: a macro does not expand within itself, so each step leaves the next one to
 * another scan of its text, of which there are enough for 340 fields. */
#define OUTLIVE_NO_ARGUMENTS ()
#define OUTLIVE_SCAN(...) OUTLIVE_SCAN_4(OUTLIVE_SCAN_4(OUTLIVE_SCAN_4(OUTLIVE_SCAN_4(__VA_ARGS__))))
#define OUTLIVE_SCAN_4(...) OUTLIVE_SCAN_3(OUTLIVE_SCAN_3(OUTLIVE_SCAN_3(OUTLIVE_SCAN_3(__VA_ARGS__))))
#define OUTLIVE_SCAN_3(...) OUTLIVE_SCAN_2(OUTLIVE_SCAN_2(OUTLIVE_SCAN_2(OUTLIVE_SCAN_2(__VA_ARGS__))))
#define OUTLIVE_SCAN_2(...) OUTLIVE_SCAN_1(OUTLIVE_SCAN_1(OUTLIVE_SCAN_1(OUTLIVE_SCAN_1(__VA_ARGS__))))
#define OUTLIVE_SCAN_1(...) __VA_ARGS__
#define OUTLIVE_EACH(m, t, ...) OUTLIVE_SCAN(OUTLIVE_EACH_NEXT(m, t, __VA_ARGS__))
#define OUTLIVE_EACH_NEXT(m, t, a, ...) m(t, a) __VA_OPT__(, OUTLIVE_EACH_AGAIN OUTLIVE_NO_ARGUMENTS(m, t, __VA_ARGS__))
#define OUTLIVE_EACH_AGAIN() OUTLIVE_EACH_NEXT
#define OUTLIVE_DESCRIBED_FIELD(type, member)                                                                          \
    ::outlive::detail::field<decltype(type::member)>(#member, offsetof(type, member))

/** Describes a struct by its members, in the order of their places, at most 340: numbers, structs that are
 * described, texts and lists in place (inline.hpp), and arrays of these. Outside of all namespaces, once:
 * OUTLIVE_DESCRIBE(robot::Pose, "Pose", position, heading); */
#define OUTLIVE_DESCRIBE(type, type_name, ...)                                                                         \
    template <> struct outlive::Description<type> {                                                                    \
        static const outlive_payload_t &get() {                                                                        \
            static_assert(std::is_standard_layout_v<type> && std::is_trivially_copyable_v<type>,                       \
                          "a payload is trivially copyable and of standard layout");                                   \
            static const outlive_field_t fields[] = {OUTLIVE_EACH(OUTLIVE_DESCRIBED_FIELD, type, __VA_ARGS__)};        \
            static const outlive_payload_t payload = {type_name, sizeof(type), alignof(type), OUTLIVE_ENCODING_RAW,    \
                                                      0, fields, sizeof fields / sizeof fields[0]};                    \
            return payload;                                                                                            \
        }                                                                                                              \
    }

/** Describes a struct behind which any number of items follow: the name of the tail and the type of
 * its items, then the members. `sizeof(type)` is where the items begin. `WithTail` (tail.hpp) reads
 * and writes such messages. Outside of all namespaces, once:
 * OUTLIVE_DESCRIBE_WITH_TAIL(robot::Detections, "Detections", boxes, robot::Rect, stamp) */
#define OUTLIVE_DESCRIBE_WITH_TAIL(type, type_name, tail, item, ...)                                                   \
    template <> struct outlive::Description<type> {                                                                    \
        using Item = item;                                                                                             \
        static const outlive_payload_t &get() {                                                                        \
            static_assert(std::is_standard_layout_v<type> && std::is_trivially_copyable_v<type>,                       \
                          "a payload is trivially copyable and of standard layout");                                   \
            static const outlive_field_t fields[] = {OUTLIVE_EACH(OUTLIVE_DESCRIBED_FIELD, type, __VA_ARGS__),         \
                                                     ::outlive::detail::tail_field<item>(#tail, sizeof(type))};        \
            static const outlive_payload_t payload = {type_name, sizeof(type), alignof(type), OUTLIVE_ENCODING_RAW,    \
                                                      0, fields, sizeof fields / sizeof fields[0]};                    \
            return payload;                                                                                            \
        }                                                                                                              \
    }

#endif
