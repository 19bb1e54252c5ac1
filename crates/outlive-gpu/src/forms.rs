//! The forms of waiting that topics in pinned memory and topics on devices share. The files that
//! use the macros import the names in them.

/// Adds the shared forms to a publisher, which has a `lender` and a `publish_on_until`.
macro_rules! publisher_forms {
    ($Publisher:ident, $Loan:ident) => {
        impl<T: Plain> $Publisher<T> {
            /// Publishes a loan as [`Self::publish_on`] does, or returns [`GpuError::TimedOut`] at
            /// once where that would wait.
            ///
            /// # Errors
            /// The errors of [`Self::publish_on`], and [`GpuError::TimedOut`].
            ///
            /// # If a process dies
            /// The same as with [`Self::publish_on`].
            pub fn try_publish_on(&self, loan: $Loan<T>, stream: &Stream) -> Result<(), GpuError> {
                self.publish_on_timeout(loan, stream, Duration::ZERO)
            }

            /// Publishes a loan as [`Self::publish_on`] does, waiting as long as `span` at most.
            ///
            /// # Errors
            /// The errors of [`Self::publish_on`], and [`GpuError::TimedOut`].
            ///
            /// # If a process dies
            /// The same as with [`Self::publish_on`].
            pub fn publish_on_timeout(
                &self,
                loan: $Loan<T>,
                stream: &Stream,
                span: Duration,
            ) -> Result<(), GpuError> {
                self.publish_on_until(loan, stream, Deadline::after(span))
            }

            /// Waits until no reliable subscriber is in the way of one more message than are due:
            /// then [`Self::publish_on`] does not wait, unless another thread publishes by this
            /// publisher meanwhile.
            ///
            /// # Errors
            /// [`GpuError::Driver`].
            ///
            /// # If a process dies
            /// Such a subscriber's death ends the wait at once.
            pub fn wait_writable(&self) -> Result<(), GpuError> {
                self.wait_writable_until(Deadline::NEVER)
            }

            /// Returns [`GpuError::TimedOut`] if [`Self::wait_writable`] would wait.
            ///
            /// # Errors
            /// The errors of [`Self::wait_writable`], and [`GpuError::TimedOut`].
            pub fn try_wait_writable(&self) -> Result<(), GpuError> {
                self.wait_writable_timeout(Duration::ZERO)
            }

            /// Waits as [`Self::wait_writable`] does, as long as `span` at most.
            ///
            /// # Errors
            /// The errors of [`Self::wait_writable`], and [`GpuError::TimedOut`].
            ///
            /// # If a process dies
            /// The same as with [`Self::wait_writable`].
            pub fn wait_writable_timeout(&self, span: Duration) -> Result<(), GpuError> {
                self.wait_writable_until(Deadline::after(span))
            }

            /// Waits as [`Self::wait_writable`] does, until the deadline at most.
            ///
            /// # Errors
            /// The errors of [`Self::wait_writable`], and [`GpuError::TimedOut`].
            ///
            /// # If a process dies
            /// The same as with [`Self::wait_writable`].
            pub fn wait_writable_until(&self, deadline: Deadline) -> Result<(), GpuError> {
                self.lender.wait_writable(deadline)
            }

            /// Returns how often this publisher has stopped waiting for a reliable subscriber:
            /// [`Publisher::stopped_waiting`](outlive::topic::Publisher::stopped_waiting).
            #[must_use]
            pub fn stopped_waiting(&self) -> u64 {
                self.lender.publisher(outlive::topic::Publisher::stopped_waiting)
            }

            /// Waits until all messages that are due have been published.
            ///
            /// # Errors
            /// [`GpuError::Driver`], and [`GpuError::Publish`] for a message that was due.
            pub fn wait_published(&self) -> Result<(), GpuError> {
                self.wait_published_until(Deadline::NEVER)
            }

            /// Waits as [`Self::wait_published`] does, as long as `span` at most.
            ///
            /// # Errors
            /// The errors of [`Self::wait_published`], and [`GpuError::TimedOut`].
            pub fn wait_published_timeout(&self, span: Duration) -> Result<(), GpuError> {
                self.wait_published_until(Deadline::after(span))
            }

            /// Waits as [`Self::wait_published`] does, until the deadline at most.
            ///
            /// # Errors
            /// The errors of [`Self::wait_published`], and [`GpuError::TimedOut`].
            pub fn wait_published_until(&self, deadline: Deadline) -> Result<(), GpuError> {
                self.lender.wait_published(deadline)
            }
        }
    };
}
pub(crate) use publisher_forms;

/// Adds the shared forms to a topic, whose `$parts` know what is due.
macro_rules! topic_forms {
    ($Topic:ident, $parts:ident) => {
        impl<T: Plain> $Topic<T> {
            /// Waits as [`Self::wait_over`] does, as long as `span` at most.
            ///
            /// # Errors
            /// The errors of [`Self::wait_over`], and [`GpuError::TimedOut`].
            pub fn wait_over_timeout(&self, span: Duration) -> Result<(), GpuError> {
                self.wait_over_until(Deadline::after(span))
            }

            /// Waits as [`Self::wait_over`] does, until the deadline at most.
            ///
            /// # Errors
            /// The errors of [`Self::wait_over`], and [`GpuError::TimedOut`].
            pub fn wait_over_until(&self, deadline: Deadline) -> Result<(), GpuError> {
                self.$parts.wait_until(deadline, &mut |outstanding| outstanding == 0)
            }

            /// Closes the topic as [`Self::close`] does, waiting as long as `span` at most.
            ///
            /// # Errors
            /// The errors of [`Self::close`], and [`GpuError::TimedOut`].
            pub fn close_timeout(self, span: Duration) -> Result<(), GpuError> {
                self.close_until(Deadline::after(span))
            }

            /// Closes the topic as [`Self::close`] does, waiting until the deadline at most.
            ///
            /// # Errors
            /// The errors of [`Self::close`], and [`GpuError::TimedOut`].
            pub fn close_until(self, deadline: Deadline) -> Result<(), GpuError> {
                self.wait_over_until(deadline)?;
                drop(self);
                under_way::look_after_left();
                Ok(())
            }
        }
    };
}
pub(crate) use topic_forms;
