module github.com/ottla-io/ottla

go 1.26
