package main

import "outlive"

var (
	pools   = map[string]*outlive.Pool{}
	objects = map[string]*outlive.Object{}
	shares  = map[string]*outlive.Shared{}
)

func init() {
	family("pool", map[string]verb{
		"open": func(w []string) (any, error) {
			pool, err := domain.OpenPool(w[0], outlive.PoolOptions{MaxBytes: option(w, "max")})
			pools[w[0]] = pool
			return nil, err
		},
		"alloc": func(w []string) (any, error) {
			data := message(w[2])
			object, err := pools[w[0]].Alloc(len(data))
			if err == nil {
				copy(object.Data(), data)
				objects[w[1]] = object
			}
			return nil, err
		},
		"show": func(w []string) (any, error) {
			if share := shares[w[0]]; share != nil {
				return show(share.Data()), nil
			}
			return show(objects[w[0]].Data()), nil
		},
		"offer": func(w []string) (any, error) { return objects[w[0]].Offer() },
		"offer_to": func(w []string) (any, error) {
			return objects[w[0]].OfferTo(domain, outlive.Token(number(w[1])))
		},
		"claim": func(w []string) (any, error) {
			object, err := pools[w[0]].Claim(number(w[2]))
			if err != nil {
				return nil, err
			}
			objects[w[1]] = object
			return show(object.Data()), nil
		},
		"share": func(w []string) (any, error) {
			share, err := objects[w[0]].Share()
			if err != nil {
				return nil, err
			}
			shares[w[0]] = share
			return share.Offset(), nil
		},
		"join": func(w []string) (any, error) {
			share, err := pools[w[0]].Join(number(w[2]))
			if err != nil {
				return nil, err
			}
			shares[w[1]] = share
			return show(share.Data()), nil
		},
		"free": func(w []string) (any, error) {
			if share := shares[w[0]]; share != nil {
				delete(shares, w[0])
				return nil, share.Close()
			}
			return nil, objects[w[0]].Close()
		},
		"gc": func(w []string) (any, error) { return nil, pools[w[0]].GC() },
		"prefault": func(w []string) (any, error) {
			return nil, pools[w[0]].Prefault(int(number(w[1])), int(number(w[2])))
		},
		"count": func(w []string) (any, error) {
			usage, err := pools[w[0]].Usage()
			return map[byte]uint64{'u': usage.Used, 'o': usage.Offered, 's': usage.Shared}[w[1][0]], err
		},
	})
}
