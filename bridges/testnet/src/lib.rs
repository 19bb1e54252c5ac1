//! Networks and servers for tests: namespaces, links that go down, lose packets or are slow.
