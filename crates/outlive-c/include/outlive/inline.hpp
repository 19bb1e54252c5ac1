/* Texts and lists that lie in a struct. */
#ifndef OUTLIVE_INLINE_HPP
#define OUTLIVE_INLINE_HPP

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "described.hpp"
#include "payload.hpp"

namespace outlive {

/** A text of at most `N` bytes that lies where it is declared: `InlineString<N>` in Rust, `text[N]` in
 * Python. Every bit pattern is a value: a length beyond the room counts as the room. Its bytes may be
 * any, as those of every message; it has no NUL behind it. */
template <size_t N> struct inline_string {
    static_assert(N > 0 && N % 4 == 0, "a text in place has room for a multiple of 4 bytes, in all languages");
    /** For the description; read `size()`. */
    uint32_t length = 0;
    char bytes[N] = {};

    static constexpr size_t capacity() noexcept { return N; }
    /** Returns a text; nothing if it has more than `N` bytes. */
    static std::optional<inline_string> of(std::string_view text) noexcept {
        inline_string made;
        return made.set(text) ? std::optional(made) : std::nullopt;
    }
    /** Writes another text there; false, and the old one stays, if it has more than `N` bytes. */
    bool set(std::string_view text) noexcept { return outlive_string_set(&length, bytes, N, text.data(), text.size()); }
    size_t size() const noexcept { return outlive_string_size(&length, N); }
    bool empty() const noexcept { return size() == 0; }
    std::string_view view() const noexcept { return {bytes, size()}; }

    friend bool operator==(const inline_string &a, const inline_string &b) noexcept { return a.view() == b.view(); }
    friend bool operator==(const inline_string &a, std::string_view b) noexcept { return a.view() == b; }
};

/** A list of at most `N` items that lies where it is declared: `InlineVec<T, N>` in Rust, `list[T][N]`
 * in Python. Every bit pattern is a value: a length beyond the room counts as the room. */
template <class T, size_t N> struct inline_vec {
    static_assert(N > 0 && sizeof(T) * N % 8 == 0, "a list in place has room for a multiple of 8 bytes, in all languages");
    static_assert(alignof(T) <= 8, "items are aligned to at most 8 bytes");
    using value_type = T;
    /** For the description; read `size()`. */
    uint64_t length = 0;
    T items[N] = {};

    static constexpr size_t capacity() noexcept { return N; }
    /** Returns a list of these items; nothing if they are more than `N`. */
    static std::optional<inline_vec> of(std::span<const T> items) noexcept {
        if (items.size() > N) return std::nullopt;
        inline_vec made;
        std::ranges::copy(items, made.items);
        made.length = items.size();
        return made;
    }
    /** Adds an item; false if there is no room for it. */
    bool push_back(const T &item) noexcept {
        size_t at = size();
        if (at == N) return false;
        items[at] = item;
        length = at + 1;
        return true;
    }
    void clear() noexcept { length = 0; }
    size_t size() const noexcept { return outlive_vec_size(&length, N); }
    bool empty() const noexcept { return size() == 0; }
    /** Returns its items, as many as `size()` is now. */
    std::span<T> span() noexcept { return {items, size()}; }
    std::span<const T> span() const noexcept { return {items, size()}; }
    T *data() noexcept { return items; }
    const T *data() const noexcept { return items; }
    T *begin() noexcept { return items; }
    T *end() noexcept { return items + size(); }
    const T *begin() const noexcept { return items; }
    const T *end() const noexcept { return items + size(); }
};

template <size_t N> struct Description<inline_string<N>> {
    static const outlive_payload_t &get() {
        static const outlive_field_t fields[] = {detail::field<uint32_t>("length", 0), detail::field<char[N]>("bytes", 4)};
        static const outlive_payload_t payload = {"", N + 4, 4, OUTLIVE_ENCODING_RAW, 0, fields, 2};
        return payload;
    }
};

template <class T, size_t N> struct Description<inline_vec<T, N>> {
    static const outlive_payload_t &get() {
        using List = inline_vec<T, N>;
        static const outlive_field_t fields[] = {detail::field<uint64_t>("length", 0), detail::field<T[N]>("items", 8)};
        static const outlive_payload_t payload = {"", sizeof(List), alignof(List), OUTLIVE_ENCODING_RAW, 0, fields, 2};
        return payload;
    }
};

namespace detail {
/* A message that is such a list is all of its bytes, not its items. */
template <class T, size_t N> inline constexpr bool lies_in_place<inline_vec<T, N>> = true;
} // namespace detail

} // namespace outlive

#endif
