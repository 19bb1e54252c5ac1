/* queue_tap.pml - a tap beside a queue: it copies messages without taking them; it finds each one whole or
 * counts it as lost.
 *
 *   cl[s] own[s]  a slot's claim: {lap, state}, and the sender that writes
 *   rd[s]         READY: lap + 1 of the message that is there
 *   da[s] db[s]   its two halves
 *   head          the receiver's; recv: messages received; jat jnext: the journal
 *
 * send     1. t = tail; the slot's claim EMPTY(lap) -> WRITING(lap)   2. tail (or helped)   3. da, db
 *          4. rd = lap + 1.  Dead after 1 and before 4: abandoned.
 * receive  1. READY: jnext = recv + 1; WRITING by a dead sender, still not READY: jnext = recv
 *          2. jat = head + 1   3. claim = EMPTY(lap + 1)   4. recv = jnext   5. head + 1.  A successor that
 *          finds the claim at the head a lap ahead does 4 and 5.
 * tap      at {pos, num}: 1. claim   2. rd
 *          READY: 3. da, db   4. the claim: that lap, or EMPTY(lap + 1): found; else overtaken
 *          rd is ahead: overtaken. The claim is ahead, or WRITING by a dead sender that is not READY: past.
 *          overtaken: 5. the receiver's words, one by one, until two looks agree   6. from there back over
 *          slots whose claim is EMPTY(lap + 1) behind the look at rd.  lost += their num - num.
 *
 * Checked: what is found is the message of that position, whole; num is how many messages came before it; at
 * the end num is how many were sent.
 * Switches: -DN=slots -DM=positions -DNS=senders -DD=deaths (of senders and receivers)
 * Mutations, each must be caught:
 *   NOCHECK     4 is left out
 *   READYCHECK  4 looks at rd
 *   BYTESFIRST  a sender writes a half before its claim
 *   READYFIRST  2 before 1
 *   ONELOOK     5 without the second look
 *   NOAHEAD     5 ignores that the slot at the head is given back
 *   NOJOURNAL   5 ignores the journal
 *   BACKALL     6 does not look at claims
 *   PASTLIVING  a slot that is being written is passed
 */
#ifndef N
#define N 2
#endif
#ifndef M
#define M 4
#endif
#ifndef NS
#define NS 1
#endif
#ifndef D
#define D 0
#endif
#define LAP(p) ((p)/N)
#define SLOT(p) ((p)%N)
#define EMPTY(l) (2*(l))
#define WRITING(l) (2*(l)+1)
#define CLAP(c) ((c)/2)
byte cl[N], own[N], rd[N], da[N], db[N];
byte tail, head, recv, jat, jnext;
byte deaths;
bool dead[NS+1], over;
/* By position, whether a message was published there: position + 1. */
bool pub[M+1];
byte senders, receivers;

proctype Sender(byte me) {
	byte t, s;
	do
	:: atomic { tail<M -> t=tail; s=SLOT(t) };
#ifdef BYTESFIRST
		da[s]=t+1;
#endif
		if
		:: atomic { cl[s]==EMPTY(LAP(t)) && tail==t -> cl[s]=WRITING(LAP(t)); own[s]=me }
		:: atomic { cl[s]!=EMPTY(LAP(t)) || tail!=t ->
			if
			:: tail==t && CLAP(cl[s])>=LAP(t) -> tail=t+1		/* helps */
			:: tail==t && CLAP(cl[s])<LAP(t) -> (tail!=t || CLAP(cl[s])>=LAP(t) || over)	/* full */
			:: else
			fi; if :: over -> goto out :: else fi };
			goto again
		fi;
		if :: atomic { deaths>0 -> deaths--; dead[me]=1; goto out } :: true fi;
		if :: atomic { tail==t -> tail=t+1 } :: atomic { tail!=t } fi;
		da[s]=t+1;
		if :: atomic { deaths>0 -> deaths--; dead[me]=1; goto out } :: true fi;
		db[s]=t+1;
		atomic { rd[s]=LAP(t)+1; pub[t]=1 };
		if :: atomic { deaths>0 -> deaths--; dead[me]=1; goto out } :: true fi;
again:		skip
	:: atomic { tail==M -> goto out }
	od;
out:	atomic { senders--; }
}

proctype Receiver() {
	byte s, h;
	bool is;
again:
	/* Comes in: settles. */
	atomic {
		if :: head<M && CLAP(cl[SLOT(head)])>LAP(head) -> goto settle :: else fi
	};
	do
	:: atomic { head<M && rd[SLOT(head)]==LAP(head)+1 -> jnext=recv+1 };
give:		jat=head+1;
		if :: atomic { deaths>0 -> deaths--; goto again } :: true fi;
		cl[SLOT(head)]=EMPTY(LAP(head)+1);
		if :: atomic { deaths>0 -> deaths--; goto again } :: true fi;
		recv=jnext;
		if :: atomic { deaths>0 -> deaths--; goto again } :: true fi;
		head++
	:: atomic { head<M && cl[SLOT(head)]==WRITING(LAP(head)) && dead[own[SLOT(head)]] && rd[SLOT(head)]!=LAP(head)+1 ->
		jnext=recv; goto give }
	:: atomic { head==M -> goto out }
	:: atomic { senders==0 && head<M && rd[SLOT(head)]!=LAP(head)+1 &&
		!(cl[SLOT(head)]==WRITING(LAP(head)) && dead[own[SLOT(head)]]) -> goto out }
	od;
settle:
	/* The journal is the slot's: it was written before. */
	atomic { assert(jat==head+1) };
	recv=jnext;
	head++;
	goto again;
out:	atomic { receivers--; over=1 }
}

/* How many messages come before a position, all of which are settled. */
inline before(p, sum) {
	sum=0; k=0;
	do :: k<p -> sum=sum+pub[k]; k++ :: else -> break od;
	k=0
}

proctype Tap() {
	byte pos, num, lost, found, c, r, a, b, k, k2, n;
	byte h, ah, j, jn, rc, h2, p, q;
	bool same;
	do
	:: atomic { pos==M -> break }
	:: pos<M ->
#ifdef READYFIRST
		r=rd[SLOT(pos)];
		c=cl[SLOT(pos)];
#else
		c=cl[SLOT(pos)];
		r=rd[SLOT(pos)];
#endif
		if
		:: r==LAP(pos)+1 ->
			a=da[SLOT(pos)];
			b=db[SLOT(pos)];
#ifdef READYCHECK
			c=WRITING(LAP(pos)); r=rd[SLOT(pos)];
			if :: r!=LAP(pos)+1 -> goto overtaken :: else fi;
#elif !defined(NOCHECK)
			c=cl[SLOT(pos)];
			if :: c!=WRITING(LAP(pos)) && c!=EMPTY(LAP(pos)+1) -> goto overtaken :: else fi;
#endif
			atomic {
				assert(a==pos+1 && b==pos+1);
				before(pos, n);
				assert(num==n);
				num++; found++; pos++
			}
		:: r>LAP(pos)+1 -> goto overtaken
		:: r<LAP(pos)+1 && CLAP(c)>LAP(pos) -> pos++
		:: r<LAP(pos)+1 && c==WRITING(LAP(pos)) ->
			if
#ifdef PASTLIVING
			:: pos++
#endif
			:: atomic { dead[own[SLOT(pos)]] && cl[SLOT(pos)]==c && rd[SLOT(pos)]!=LAP(pos)+1 -> pos++ }
			:: atomic { !(dead[own[SLOT(pos)]] && cl[SLOT(pos)]==c && rd[SLOT(pos)]!=LAP(pos)+1) ->
				if
				:: receivers==0 && senders==0 && cl[SLOT(pos)]==c && rd[SLOT(pos)]!=LAP(pos)+1 -> break
				:: else
				fi }
			fi
		:: r<LAP(pos)+1 && (c==EMPTY(LAP(pos)) || CLAP(c)<LAP(pos)) ->
			if
			/* Nothing more comes. */
			:: atomic { senders==0 && receivers==0 && cl[SLOT(pos)]==c && rd[SLOT(pos)]==r -> break }
			:: atomic { cl[SLOT(pos)]!=c || rd[SLOT(pos)]!=r }
			fi
		fi;
		goto next;
overtaken:
		same=0; h=255;
		do
		:: h2=head; p=0;
			if :: h2<M -> p=(CLAP(cl[SLOT(h2)])>LAP(h2)) :: else fi;
			a=jat; b=jnext; q=recv;
#ifdef ONELOOK
			same=1;
#else
			same=(h==h2 && ah==p && j==a && jn==b && rc==q);
#endif
			h=h2; ah=p; j=a; jn=b; rc=q;
			if :: same -> break :: else fi
		od;
#ifdef NOAHEAD
		ah=0;
#endif
		n=rc;
#ifndef NOJOURNAL
		if :: ah && j==h+1 -> n=jn :: else fi;
#endif
		p=h+ah;
		assert(p>pos && n>=num);
		/* Back, as far as the first slot behind pos. */
		do
		:: p>pos+1 ->
			r=rd[SLOT(p-1)];
#ifndef BACKALL
			c=cl[SLOT(p-1)];
			if :: c!=EMPTY(LAP(p-1)+1) -> break :: else fi;
#endif
			if :: r==LAP(p-1)+1 -> n-- :: else fi;
			p--
		:: break
		od;
		atomic {
			before(p, k2);
			assert(n==k2);
			lost=lost+(n-num); num=n; pos=p
		};
next:		skip
	od;
	atomic {
		before(M, n);
		assert(num==n && found+lost==num)
	}
}

init {
	byte i;
	atomic {
		if :: deaths=0 :: D>0 -> deaths=1 :: D>1 -> deaths=2 fi;
		senders=NS; receivers=1;
		i=1;
		do :: i<=NS -> run Sender(i); i++ :: else -> break od;
		run Receiver();
		run Tap()
	}
}
