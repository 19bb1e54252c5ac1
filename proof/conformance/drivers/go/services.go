package main

import (
	"errors"
	"io"

	"outlive"
)

var (
	clients = map[string]*outlive.Client{}
	servers = map[string]*outlive.Server{}
	// There once: what was taken or begun last, and why a service failed.
	request *outlive.Request
	replies *outlive.ReplyStream
	call    *outlive.Call
	parts   *outlive.RequestStream
	failed  string
)

// heard returns a reply as an answer, and keeps why there is none.
func heard(data []byte, err error) (any, error) {
	var of *outlive.Error
	if errors.As(err, &of) {
		failed = of.Message
	}
	if err == io.EOF {
		return "end", nil
	}
	return show(data), err
}

func another(next *outlive.Call, err error) (any, error) {
	if call != nil {
		call.Close()
	}
	call = next
	return nil, err
}

func init() {
	family("client", map[string]verb{
		"open": func(w []string) (any, error) {
			client, err := domain.OpenClient(w[0], outlive.ServiceOptions{WaitForServer: has(w, "wait")})
			clients[w[0]] = client
			return nil, err
		},
		"prefault": func(w []string) (any, error) {
			return nil, clients[w[0]].Prefault(int(number(w[1])), int(number(w[2])))
		},
		"call": func(w []string) (any, error) {
			ctx, cancel := until(w[2])
			defer cancel()
			return heard(clients[w[0]].Call(ctx, message(w[1])))
		},
		"begin": func(w []string) (any, error) {
			ctx, cancel := until(w[2])
			defer cancel()
			return another(clients[w[0]].Begin(ctx, message(w[1])))
		},
		"loan": func(w []string) (any, error) { return whole("error Unsupported client.loan"), nil },
		"stream": func(w []string) (any, error) {
			ctx, cancel := until(w[2])
			defer cancel()
			var err error
			parts, err = clients[w[0]].Stream(ctx, message(w[1]))
			return nil, err
		},
		"send": func(w []string) (any, error) {
			ctx, cancel := until(w[1])
			defer cancel()
			return nil, parts.Send(ctx, message(w[0]))
		},
		"finish":  func(w []string) (any, error) { return another(parts.Finish()) },
		"let_go":  func(w []string) (any, error) { return nil, parts.Close() },
		"failure": func(w []string) (any, error) { return failed, nil },
		"alive":   func(w []string) (any, error) { return nil, clients[w[0]].AssertLiveliness() },
		"next": func(w []string) (any, error) {
			ctx, cancel := until(w[0])
			defer cancel()
			return heard(call.Next(ctx))
		},
	})
	family("server", map[string]verb{
		"open": func(w []string) (any, error) {
			ctx, cancel := until("try")
			if within := option(w, "within"); within > 0 {
				ctx, cancel = until(w[1][len("within="):])
			}
			defer cancel()
			server, err := domain.OpenServer(ctx, w[0], outlive.ServiceOptions{MaxServers: option(w, "servers")})
			if err == nil {
				servers[w[0]] = server
			}
			return nil, err
		},
		"prefault": func(w []string) (any, error) {
			return nil, servers[w[0]].Prefault(int(number(w[1])), int(number(w[2])))
		},
		"next": func(w []string) (any, error) {
			ctx, cancel := until(w[1])
			defer cancel()
			if request != nil {
				request.Close()
			}
			next, err := servers[w[0]].Next(ctx)
			if err != nil {
				return nil, err
			}
			request, replies = next, nil
			return show(request.Data()), nil
		},
		"client": func([]string) (any, error) {
			client, err := request.Client()
			return client.Pid, err
		},
		"cancelled": func([]string) (any, error) {
			return map[bool]string{true: "yes", false: "no"}[request.IsCancelled()], nil
		},
		"wait_cancelled": func(w []string) (any, error) {
			ctx, cancel := until(w[0])
			defer cancel()
			return nil, request.WaitCancelled(ctx)
		},
		"next_part": func(w []string) (any, error) {
			ctx, cancel := until(w[0])
			defer cancel()
			if replies != nil {
				return heard(replies.NextPart(ctx))
			}
			return heard(request.NextPart(ctx))
		},
		"reply": func(w []string) (any, error) { return nil, request.Reply(message(w[0])) },
		"reply_loan": func(w []string) (any, error) {
			data := message(w[0])
			loan, err := request.Loan(len(data))
			if err != nil {
				return nil, err
			}
			copy(loan.Data(), data)
			return nil, loan.Send()
		},
		"fail_loan": func(w []string) (any, error) {
			loan, err := request.Loan(int(number(w[0])))
			if err != nil {
				return nil, err
			}
			return nil, loan.Fail(w[1])
		},
		"fail": func(w []string) (any, error) { return nil, request.Fail(w[0]) },
		"drop": func(w []string) (any, error) { return nil, request.Close() },
		"stream": func(w []string) (any, error) {
			var err error
			replies, err = request.Stream()
			return nil, err
		},
		"send": func(w []string) (any, error) {
			ctx, cancel := until(w[1])
			defer cancel()
			return nil, replies.Send(ctx, message(w[0]))
		},
		"finish":      func(w []string) (any, error) { return nil, replies.Finish() },
		"fail_stream": func(w []string) (any, error) { return nil, replies.Fail(w[0]) },
	})
}
