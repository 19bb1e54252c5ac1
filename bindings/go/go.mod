module outlive

go 1.24
