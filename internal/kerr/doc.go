// Package kerr owns the error codes of the protocol.
//
// Called by everybody who answers a request or reads an answer: a code is chosen where the fact is known,
// wrapped on its way (fmt.Errorf with %w), and put on the wire in one place with Code.
// Never carries text for the wire: an ErrorMessage is the handler's.
package kerr
