package outlive

import (
	"fmt"
	"reflect"
	"unsafe"
)

// As shows shared bytes as a value of T, without a copy: a lock's value, a loan, a sample. T is of fixed
// size and holds no pointers (no string, slice, map or interface), and its layout is that of the same
// struct in C, Rust or Python.
//
// Errors: [ErrOtherType]: T has another size or alignment, or holds pointers.
func As[T any](data []byte) (*T, error) {
	of := reflect.TypeFor[T]()
	if !isPlain(of) {
		return nil, &Error{Code: ErrOtherType, Message: fmt.Sprintf("%v holds pointers, which mean nothing to another process", of)}
	}
	if uintptr(len(data)) != of.Size() || len(data) == 0 {
		return nil, &Error{Code: ErrOtherType, Message: fmt.Sprintf("%v has %d bytes, and there are %d", of, of.Size(), len(data))}
	}
	if uintptr(unsafe.Pointer(&data[0]))%uintptr(of.Align()) != 0 {
		return nil, &Error{Code: ErrOtherType, Message: fmt.Sprintf("%v is aligned to %d bytes, and the data is not", of, of.Align())}
	}
	return (*T)(unsafe.Pointer(&data[0])), nil
}

// isPlain reports whether values of the type mean the same in every process.
func isPlain(of reflect.Type) bool {
	switch of.Kind() {
	case reflect.Bool, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint16,
		reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64, reflect.Int, reflect.Uint,
		reflect.Complex64, reflect.Complex128:
		return true
	case reflect.Array:
		return isPlain(of.Elem())
	case reflect.Struct:
		for at := range of.NumField() {
			if !isPlain(of.Field(at).Type) {
				return false
			}
		}
		return true
	}
	return false
}
