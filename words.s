// This file lets words.go declare a function without a body.
