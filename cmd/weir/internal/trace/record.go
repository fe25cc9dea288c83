package trace

// A record has the texts of the fields of a line. A field that is absent is empty.
type record [fields][]byte

// The fields of a record. The date is that of a time of day. The request is fieldRequest, or else fieldMethod and
// fieldTarget, or else fieldRoute.
const (
	fieldTime = iota
	fieldDate
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

// defaultNames are the names of each field in all formats, in the order in which they count.
var defaultNames = [fields][]string{
	fieldTime: {"StartUTC", "time", "ts", "timestamp", "@timestamp", "msec", "time_iso8601", "time_local",
		"EdgeStartTimestamp", "start_time"},
	fieldDate: {"date"},
	fieldKey: {"key", "client_ip", "remote_ip", "remote_addr", "request.client_ip", "request.remote_ip", "c-ip",
		"ClientHost", "ClientIP", "httpRequest.remoteIp", "client.ip", "source.ip", "http_x_forwarded_for"},
	fieldCost:    {"cost"},
	fieldPlan:    {"plan"},
	fieldRequest: {"request"},
	fieldMethod: {"method", "request_method", "request.method", "cs-method", "RequestMethod", "ClientRequestMethod",
		"httpRequest.requestMethod", "http.request.method"},
	fieldTarget: {"path", "uri", "request_uri", "url", "request.path", "request.uri", "request.url", "cs-uri-stem",
		"RequestPath", "ClientRequestPath", "ClientRequestURI", "httpRequest.requestUrl", "url.path"},
	fieldRoute: {"route"},
	fieldStatus: {"status", "sc-status", "DownstreamStatus", "EdgeResponseStatus",
		"httpRequest.status", "http.response.status_code"},
}

// names returns the names of each field.
func (f Fields) names() [fields][]string {
	names := defaultNames
	chosen := f.chosen()
	if name := chosen[fieldRequest]; name != "" {
		names[fieldMethod] = []string{name + ".method"}
		names[fieldTarget] = []string{name + ".path", name + ".uri", name + ".url"}
		names[fieldRoute] = nil
	}
	if f.Method != "" || f.Path != "" {
		names[fieldRequest], names[fieldRoute] = nil, nil
	}
	if f.Time != "" {
		names[fieldDate] = nil
	}
	for field, name := range chosen {
		if name != "" {
			names[field] = []string{name}
		}
	}
	return names
}

// chosen returns the names that f sets.
func (f Fields) chosen() [fields]string {
	return [...]string{fieldTime: f.Time, fieldKey: f.Key, fieldCost: f.Cost, fieldPlan: f.Plan, fieldRequest: f.Request,
		fieldMethod: f.Method, fieldTarget: f.Path, fieldStatus: f.Status}
}

// offer sets a field to text, unless text is absent. done reports whether the names that count less are not needed:
// a time member that is a duration has effect only if there is no other one.
func (r *record) offer(field int, text []byte) (done bool) {
	if !present(text) {
		return false
	}
	done = field != fieldTime || isTime(text)
	if done || r[field] == nil {
		r[field] = text
	}
	return done
}

// present reports whether the text of a field is there: logs have "-" in place of an absent text.
func present(text []byte) bool { return len(text) > 0 && string(text) != "-" }
