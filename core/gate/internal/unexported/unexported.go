// Package unexported gives package adapter access to the functions and texts of package gate that
// applications do not need.
package unexported

// Functions is a value of package gate. Package adapter declares the interface that it implements.
var Functions any

// Served is the part of a gate that follows the handler.
type Served struct {
	// RefundIf refunds the request if that is right for the status of the response. It is nil if the
	// status does not matter.
	RefundIf func(status int)
	// End frees the places of the request. It is nil if there are none.
	End func()
}

// The type and the title of the problem document of a denial with status 429, which are nearly all documents.
const (
	TypeQuotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	TitleOfQuota      = "Request cannot be satisfied as assigned quota has been exceeded"
)
