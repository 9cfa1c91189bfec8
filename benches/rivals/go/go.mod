module urgo-bench-go

go 1.24
