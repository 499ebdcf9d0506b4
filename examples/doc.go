// Package examples holds scripts that show what Ottla does, each in a folder with a README. Its test runs them.
package examples
