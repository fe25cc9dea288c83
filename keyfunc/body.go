package keyfunc

import (
	"context"
	"errors"
	"mime"
	"net/http"

	"github.com/weir-go/weir/internal/requestbody"
)

// maxBody is the maximum length in bytes of a body in which FormValue and JSONField look for a
// field.
const maxBody = 64 << 10

var errType = unusable("the Content-Type is malformed")

// bytesOf is contentOf for a Func that reads the body.
func bytesOf(ctx context.Context, r *http.Request) ([]byte, error) {
	data, err := contentOf(ctx, r)
	requestbody.SetUsed(r)
	return data, err
}

// contentOf returns all bytes of the body of r, as [requestbody.Read] does. The error is a NoKeyError.
func contentOf(ctx context.Context, r *http.Request) ([]byte, error) {
	data, err := requestbody.Read(ctx, r, maxBody)
	if err != nil {
		return nil, unusable(err.Error()).with(errors.Unwrap(err))
	}
	return data, nil
}

// hasBody reports whether r has or had a body.
func hasBody(ctx context.Context, r *http.Request) bool {
	if !requestbody.IsEmpty(r) && r.ContentLength > 0 || len(r.PostForm) > 0 || r.MultipartForm != nil {
		return true
	}
	data, err := contentOf(ctx, r)
	return err != nil || len(data) > 0
}

// contentType returns the media type of the body of r, in lower case, and its parameters. The media
// type is "" if the field is absent. It is an error if the field is malformed or occurs twice, because
// the handler might read another one.
func contentType(r *http.Request) (mediaType string, params map[string]string, err error) {
	switch lines := r.Header["Content-Type"]; len(lines) {
	case 0:
		return "", nil, nil
	case 1:
		if mediaType, params, err = mime.ParseMediaType(lines[0]); err != nil {
			return "", nil, errType.with(err)
		}
		return mediaType, params, nil
	}
	return "", nil, errType
}
