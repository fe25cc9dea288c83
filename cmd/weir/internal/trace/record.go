package trace

// A record has the texts of the fields of a line. A field that is absent is empty.
type record [fields][]byte

// The fields of a record. The request is fieldRequest, or else fieldMethod and fieldTarget, or else
// fieldRoute.
const (
	fieldTime = iota
	fieldKey
	fieldCost
	fieldPlan
	fieldRequest
	fieldMethod
	fieldTarget
	fieldRoute
	fieldStatus
	fields // the number of fields
)

// defaultNames are the names of each field in JSON and CSV, in the order in which they count.
var defaultNames = [fields][]string{
	fieldTime:    {"time", "ts", "timestamp", "@timestamp", "time_iso8601", "msec"},
	fieldKey:     {"key", "client_ip", "remote_ip", "remote_addr", "request.client_ip", "request.remote_ip"},
	fieldCost:    {"cost"},
	fieldPlan:    {"plan"},
	fieldRequest: {"request"},
	fieldMethod:  {"method", "request_method", "request.method"},
	fieldTarget:  {"path", "uri", "request_uri", "url", "request.path", "request.uri", "request.url"},
	fieldRoute:   {"route"},
	fieldStatus:  {"status"},
}

// names returns the names of each field.
func (f Fields) names() [fields][]string {
	names := defaultNames
	for field, name := range f.chosen() {
		if name == "" {
			continue
		}
		names[field] = []string{name}
		if field == fieldRequest {
			names[fieldMethod] = []string{name + ".method"}
			names[fieldTarget] = []string{name + ".path", name + ".uri", name + ".url"}
			names[fieldRoute] = nil
		}
	}
	return names
}

// chosen returns the names that f sets, from fieldTime to fieldRequest.
func (f Fields) chosen() [fieldRequest + 1]string {
	return [...]string{f.Time, f.Key, f.Cost, f.Plan, f.Request}
}

// present reports whether the text of a field is there: logs have "-" in place of an absent text.
func present(text []byte) bool { return len(text) > 0 && string(text) != "-" }
