package adapter

import "net/http"

// CopyBack sets the fields MultipartForm, Form, PostForm and Pattern of original to those of r, which code
// inside the gate has set. original is the request that was given to [Gate.Admit], and r the request that the
// framework has when the handler has returned or panicked. If both are the same, or r is nil, CopyBack does
// nothing. A form that original has already is kept.
//
// net/http removes the temporary files of the MultipartForm of the request that it has made, and code
// around a gate, such as a log, finds the route and the form there. An adapter defers CopyBack before it
// runs the handler or a function of OnDenied or OnRejected.
func CopyBack(original, r *http.Request) {
	if original == r || r == nil {
		return
	}
	if original.MultipartForm == nil && r.MultipartForm != nil {
		original.MultipartForm = r.MultipartForm
	}
	if original.Form == nil && r.Form != nil {
		original.Form = r.Form
	}
	if original.PostForm == nil && r.PostForm != nil {
		original.PostForm = r.PostForm
	}
	if r.Pattern != "" && r.Pattern != original.Pattern {
		original.Pattern = r.Pattern
	}
}
