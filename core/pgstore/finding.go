package pgstore

// A Finding is the result of one check of [Store.Check]. It has the form of the type of this name in package diagnose of
// redisstore.
type Finding struct {
	Check  string `json:"check"` // the name of the check, such as "connection" or "enable_seqscan"
	Result Result `json:"result"`
	Detail string `json:"detail"`           // the facts: figures, a version, or an error of Postgres, which contains no key
	Change string `json:"change,omitempty"` // the change that mends it; empty if the Result is ResultOK
}

// A Result says whether a Store works with a part of a Postgres.
type Result string

const (
	ResultOK      Result = "ok"
	ResultUnknown Result = "unknown" // not checked: the role lacks a permission, a reply is missing, or the time has ended
	ResultWarning Result = "warning" // works, with the disadvantage in Detail
	ResultFailed  Result = "failed"  // will not work
)
