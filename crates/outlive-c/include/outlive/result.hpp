/* The result of a call: a value, or a code and a message. */
#ifndef OUTLIVE_RESULT_HPP
#define OUTLIVE_RESULT_HPP

#include <outlive.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

namespace outlive {

/** Returns the version of the library, as text, and that of its ABI. */
inline const char *version() noexcept { return outlive_version(); }
inline uint32_t abi_version() noexcept { return outlive_abi_version(); }

namespace detail {

class Category final : public std::error_category {
public:
    const char *name() const noexcept override { return "outlive"; }
    std::string message(int code) const override { return outlive_strerror(code); }
    /* Codes below 10,000 are errno's: `error.code() == std::errc::owner_dead`. */
    std::error_condition default_error_condition(int code) const noexcept override {
        return code < OUTLIVE_DAMAGED ? std::error_condition(code, std::generic_category()) : std::error_condition(code, *this);
    }
};

} // namespace detail

/** Returns the codes of outlive.h as a `std::error_category`. */
inline const std::error_category &category() noexcept {
    static const detail::Category category;
    return category;
}

/** Why a call returned no value: a code of outlive.h, and what happened, on what, and what to do
 * next. */
class Failure {
public:
    /** Makes a failure of a code that a function of outlive.h just returned to this thread. */
    static Failure last(int code) {
        /* These are frequent, and allocate nothing. */
        bool is_ordinary = code == EAGAIN || code == EBUSY || code == ETIMEDOUT;
        return Failure(code, is_ordinary ? std::string() : std::string(outlive_last_error()), outlive_last_error_pid());
    }

    /** Makes a failure with its message whatever the code, for a call that seldom fails: with EBUSY
     * the message names the holder. */
    static Failure told(int code) { return Failure(code, outlive_last_error(), outlive_last_error_pid()); }

    Failure(int code, std::string message, uint32_t pid = 0) : code_(code), pid_(pid), message_(std::move(message)) {}

    /** Returns errno's number where there is one, else one of the OUTLIVE_ codes. */
    int code() const noexcept { return code_; }
    std::string message() const { return message_.empty() ? outlive_strerror(code_) : message_; }
    std::error_code error_code() const noexcept { return {code_, category()}; }
    /** Returns the process that it names, as `outlive_last_error_pid`: the slowest reliable subscriber,
     * where publishing gave ETIMEDOUT or EAGAIN. 0: none. */
    uint32_t pid() const noexcept { return pid_; }

private:
    friend class Error;
    int code_;
    uint32_t pid_;
    std::string message_;
};

/** The exception that `value()` throws. */
class Error : public std::system_error {
public:
    explicit Error(const Failure &failure) : std::system_error(of(failure)), pid_(failure.pid()) {}
    /** Returns the process that the failure names; 0: none. */
    uint32_t pid() const noexcept { return pid_; }

private:
    static std::system_error of(const Failure &failure) {
        /* A system_error has the meaning of its code as its message. */
        if (failure.message_.empty()) return std::system_error(failure.error_code());
        return {failure.error_code(), failure.message_};
    }
    uint32_t pid_;
};

/** The exception of a call that the service failed (`Request::fail`): `text()` is why, in the words
 * of its server. */
class ServiceError : public Error {
public:
    explicit ServiceError(const Failure &failure) : Error(failure), text_(failure.message()) {}
    const std::string &text() const noexcept { return text_; }

private:
    std::string text_;
};

namespace detail {

[[noreturn]] inline void raise(const Failure &failure) {
#if defined(__cpp_exceptions)
    if (failure.code() == OUTLIVE_FAILED) throw ServiceError(failure);
    throw Error(failure);
#else
    std::fprintf(stderr, "outlive: %s\n", failure.message().c_str());
    std::abort();
#endif
}

} // namespace detail

/** A value or a `Failure`; with the members of C++23's `std::expected`. */
template <class T> class [[nodiscard]] expected {
public:
    using value_type = T;
    using error_type = Failure;

    expected(T value) : either_(std::in_place_index<0>, std::move(value)) {}
    expected(Failure failure) : either_(std::in_place_index<1>, std::move(failure)) {}

    bool has_value() const noexcept { return either_.index() == 0; }
    explicit operator bool() const noexcept { return has_value(); }

    /** Returns the value; throws `Error` when there is none. */
    T &value() & { return check(), *std::get_if<0>(&either_); }
    const T &value() const & { return check(), *std::get_if<0>(&either_); }
    /* Not a T &&, so that `for (auto message : queue.receiver().value())` runs over something that
     * lives. */
    T value() && { return check(), std::move(*std::get_if<0>(&either_)); }

    /** Returns the value, which must be there. */
    T &operator*() & noexcept { return *std::get_if<0>(&either_); }
    const T &operator*() const & noexcept { return *std::get_if<0>(&either_); }
    T &&operator*() && noexcept { return std::move(*std::get_if<0>(&either_)); }
    T *operator->() noexcept { return std::get_if<0>(&either_); }
    const T *operator->() const noexcept { return std::get_if<0>(&either_); }

    template <class U> T value_or(U &&other) && {
        return has_value() ? std::move(**this) : static_cast<T>(std::forward<U>(other));
    }

    /** Returns the failure, where there is no value. */
    const Failure &error() const & noexcept { return *std::get_if<1>(&either_); }
    Failure &&error() && noexcept { return std::move(*std::get_if<1>(&either_)); }
    /** Returns the code; 0 when there is a value. */
    int code() const noexcept { return has_value() ? 0 : error().code(); }

private:
    void check() const {
        if (!has_value()) detail::raise(error());
    }

    std::variant<T, Failure> either_;
};

/** Done, or a `Failure`. */
template <> class [[nodiscard]] expected<void> {
public:
    using value_type = void;
    using error_type = Failure;

    expected() = default;
    expected(Failure failure) : failure_(std::move(failure)) {}

    bool has_value() const noexcept { return failure_.code() == 0; }
    explicit operator bool() const noexcept { return has_value(); }
    /** Throws `Error` when it was not done. */
    void value() const {
        if (!has_value()) detail::raise(failure_);
    }
    const Failure &error() const noexcept { return failure_; }
    int code() const noexcept { return failure_.code(); }

private:
    Failure failure_{0, {}};
};

namespace detail {

/** Returns the result of a function of outlive.h that returns nothing but its code. */
inline expected<void> done(int code) {
    if (code != 0) return Failure::last(code);
    return {};
}

} // namespace detail

} // namespace outlive

#endif
