/* Messages with a fixed head and a tail: any number of items behind it. */
#ifndef OUTLIVE_TAIL_HPP
#define OUTLIVE_TAIL_HPP

#include "described.hpp"
#include "queue.hpp"

namespace outlive {

/** A message that is an `H` with items behind it, where it lies; `const H` of one that is only read.
 * OUTLIVE_DESCRIBE_WITH_TAIL says what the items are. Its length alone says how many there are, so
 * nothing that another process writes leads beyond the message. */
template <class H> class WithTail {
    using Described = typename Description<std::remove_const_t<H>>::Item;
    using Byte = std::conditional_t<std::is_const_v<H>, const std::byte, std::byte>;

public:
    using Item = std::conditional_t<std::is_const_v<H>, const Described, Described>;
    static_assert(Payload<std::remove_const_t<H>> && Payload<Described>);
    static_assert(sizeof(H) % alignof(Described) == 0, "the items begin where the head ends: a member has to fill the gap");
    static_assert(alignof(H) <= 8 && alignof(Described) <= alignof(H), "a head is aligned as its items are, to at most 8 bytes");

    /** Returns the bytes of a message with so many items; SIZE_MAX, if there cannot be as many. */
    static constexpr size_t size(size_t count) noexcept {
        return count > (SIZE_MAX - sizeof(H)) / sizeof(Described) ? SIZE_MAX : sizeof(H) + count * sizeof(Described);
    }

    /** Reads bytes, aligned as an `H` is, as such a message; throws an `Error` (OUTLIVE_OTHER_TYPE) if
     * none has as many. */
    explicit WithTail(std::span<Byte> bytes) : bytes_(bytes) {
        if (bytes.size() < sizeof(H) || (bytes.size() - sizeof(H)) % sizeof(Described) != 0)
            detail::raise_other_size(bytes.size(), sizeof(H));
    }

    H &head() const noexcept { return *reinterpret_cast<H *>(bytes_.data()); }
    H *operator->() const noexcept { return &head(); }
    /** Returns the items. */
    std::span<Item> tail() const noexcept {
        return {reinterpret_cast<Item *>(bytes_.data() + sizeof(H)), (bytes_.size() - sizeof(H)) / sizeof(Described)};
    }

private:
    std::span<Byte> bytes_;
};

/** Returns the bytes of a message: a copy of a head and its items. */
template <class H>
std::vector<std::byte> bytes_with_tail(const H &head, std::span<typename WithTail<const H>::Item> items) {
    std::span<const std::byte> of_head = std::as_bytes(std::span(&head, 1)), of_items = std::as_bytes(items);
    std::vector<std::byte> bytes(of_head.begin(), of_head.end());
    bytes.insert(bytes.end(), of_items.begin(), of_items.end());
    return bytes;
}

} // namespace outlive

#endif
