/* Types that may be in shared memory, and their bytes. */
#ifndef OUTLIVE_PAYLOAD_HPP
#define OUTLIVE_PAYLOAD_HPP

#include <outlive.h>

#include <concepts>
#include <cstddef>
#include <memory>
#include <ranges>
#include <span>
#include <string_view>
#include <type_traits>

namespace outlive {

/** A value that means the same in every process: its bytes are all of it. No pointer: another
 * process has other addresses. */
template <class T>
concept Payload = std::is_object_v<T> && std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T> &&
                  !std::is_pointer_v<T> && !std::is_member_pointer_v<T> && !std::is_null_pointer_v<T>;

namespace detail {

template <class M>
concept Text = std::convertible_to<const M &, std::string_view>;

/* A list in place (inline.hpp). */
template <class M> inline constexpr bool lies_in_place = false;

template <class M>
concept Array = std::ranges::contiguous_range<const M> && std::ranges::sized_range<const M> &&
                Payload<std::ranges::range_value_t<const M>> && !lies_in_place<M>;

/* Views are trivially copyable as well, but their bytes are a pointer. */
template <class M>
concept View = std::ranges::range<const M> && std::ranges::borrowed_range<const M>;

} // namespace detail

/** A type that can be sent: a `Payload`, text, or a contiguous range of payloads
 * (`std::vector<float>`, `std::span<const std::byte>`). */
template <class M>
concept Message = detail::Text<M> || detail::Array<M> || (Payload<M> && !detail::View<M>);

/** Returns a message as bytes. */
template <Message M> std::span<const std::byte> bytes_of(const M &message) noexcept {
    if constexpr (detail::Text<M>) {
        std::string_view text = message;
        return std::as_bytes(std::span(text.data(), text.size()));
    } else if constexpr (detail::Array<M>) {
        return std::as_bytes(std::span(std::ranges::data(message), std::ranges::size(message)));
    } else {
        return std::as_bytes(std::span(std::addressof(message), 1));
    }
}

/** Returns bytes as text. */
inline std::string_view text_of(std::span<const std::byte> bytes) noexcept {
    return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

namespace detail {

/** A handle of outlive.h that closes itself. */
template <auto close> struct Close {
    template <class H> void operator()(H *handle) const noexcept {
#ifdef OUTLIVE_TSAN_H
        outlive_tsan_before();
#endif
        close(handle);
    }
};
template <class H, auto close> using Handle = std::unique_ptr<H, Close<close>>;

} // namespace detail

} // namespace outlive

#endif
