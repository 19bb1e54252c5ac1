module conformance

go 1.24

require outlive v0.0.0

replace outlive => ../../../../bindings/go
