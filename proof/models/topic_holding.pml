/* topic_holding.pml - the hazard pointer of a kept slot whose owner has died (topic.md, "Named subscribers"):
 * publishers pass over it once a sweep has taken the dead one's token out, and a successor sets its own.
 * Deaths between any two steps, and a time between a death and the end of the process's last thread.
 *
 *   slot        the message that is in the ring's one slot; message m lies in object m mod 2
 *   content[o]  the message whose bytes object o has
 *   owner       the claim of the kept slot: the token of its owner, 0 once a sweep has taken it out
 *   hp          the slot's hazard pointer: 0, or an object
 *
 * publish  write the object; slot := message; fence; read the claim; 0: go on. Else read hp: if it is the
 *          object of the message before, wait. That object is lent out again for the next message but one
 * come     compare-exchange the claim 0 -> me; hp := 0
 * take     m := slot; hp := its object; fence; slot again: if it is another one, hp := 0, and again; read
 *          the object; hp := 0
 * sweep    the owner has exited: claim owner -> 0
 *
 * Plain stores to slot and hp lie in a buffer of one until a fence or at any earlier time (Memory).
 *
 * Checked: what a process reads stays as it is while it reads, also after its death, until it has exited; a
 * publisher is kept by none that has exited, whether a successor comes or not.
 * Switches: -DM=messages -DD=deaths -DR=takes of each owner
 * Mutations, each must be caught:
 *   CLAIMFIRST   publish: the claim is read before the slot is overwritten
 *   PUBNOFENCE   publish: no fence
 *   NOFENCE      take: no fence
 *   NOLOOK       take: no second look at the slot
 *   PASSDEAD     publish: passes over a slot whose owner is dead and may not have exited
 *   SWEEPDEAD    sweep: of one that is dead and may not have exited
 *   SWEEPCLEARS  sweep: hp := 0 behind the claim
 *   COUNTALL     publish: counts hp also without a token
 */
#ifndef M
#define M 4
#endif
#ifndef D
#define D 1
#endif
#ifndef R
#define R 2
#endif
#define OBJECT(m) (1+((m)%2))

byte slot=1, hp, owner=1;
byte content[3];
bool dead[3], dying[3], gone[3];
bool pfull; byte pstore;		/* the publisher's buffer */
bool sfull[3]; byte sstore[3];		/* the subscribers' */
bool published;

proctype Memory() {
end_m:	do
	:: atomic { pfull -> slot=pstore; pfull=0; pstore=0 }
	:: atomic { sfull[1] -> hp=sstore[1]; sfull[1]=0; sstore[1]=0 }
	:: atomic { sfull[2] -> hp=sstore[2]; sfull[2]=0; sstore[2]=0 }
	od
}

proctype Pub() {
	byte m=2, o;
	do
	:: m<=M ->
		content[OBJECT(m)]=m;
#ifdef CLAIMFIRST
		o=owner;
#endif
		atomic { !pfull -> pfull=1; pstore=m };
#ifndef PUBNOFENCE
		!pfull;
#endif
#ifndef CLAIMFIRST
look:		o=owner;
#endif
		if
#ifndef COUNTALL
		:: o==0 -> skip
#ifdef PASSDEAD
		:: o!=0 && dead[o] -> skip
		:: o!=0 && !dead[o] ->
#else
		:: o!=0 ->
#endif
#else
		:: true ->
#endif
			if
			:: hp!=OBJECT(m-1) -> skip
			:: atomic { hp==OBJECT(m-1) ->
				/* it looks again when something has changed */
				(hp!=OBJECT(m-1) || owner!=o
#ifdef PASSDEAD
					|| dead[o]
#endif
				);
				goto again }
			fi
		fi;
		atomic { m++; o=0 };
		goto next;
again:
#ifdef CLAIMFIRST
		atomic { hp!=OBJECT(m-1) || owner==0 -> m++; o=0 };
#else
		goto look;
#endif
next:		skip
	:: else -> break
	od;
	published=1
}

proctype Sub(byte me) {
	byte m, n;
	{
	if
	:: me==1
	:: me==2 ->
		if
		:: goto idle			/* no successor comes */
		:: skip
		fi;
end_c:		atomic { owner==0 -> owner=2 };
		atomic { !sfull[me] -> sfull[me]=1; sstore[me]=0 }
	fi;
	do
	:: n<R ->
		m=slot;
		atomic { !sfull[me] -> sfull[me]=1; sstore[me]=OBJECT(m) };
#ifndef NOFENCE
		!sfull[me];
#endif
#ifndef NOLOOK
		if
		:: slot!=m -> goto free
		:: slot==m
		fi;
#endif
		assert(content[OBJECT(m)]==m);
		assert(content[OBJECT(m)]==m);
		n++;
free:		atomic { !sfull[me] -> sfull[me]=1; sstore[me]=0; m=0 }
	:: else -> break
	od;
idle:	atomic { m=0; n=0 };
end_i:	(false)
	} unless { dying[me];
		/* the kernel: what its threads have stored is there */
		atomic { m=0; n=0; if :: sfull[me] -> hp=sstore[me]; sfull[me]=0; sstore[me]=0 :: else fi; gone[me]=1 } }
}

#ifdef SWEEPDEAD
#define ENDED(w) (w!=0 && dead[w])
#else
#define ENDED(w) (w!=0 && gone[w])
#endif

proctype Sweep() {
end_s:	do
	:: atomic { ENDED(owner) -> owner=0 };
#ifdef SWEEPCLEARS
		hp=0
#endif
	od
}

active proctype killer() {
	byte budget=D;
	atomic {
		content[OBJECT(1)]=1;
		run Memory(); run Pub(); run Sub(1); run Sub(2); run Sweep() };
	do
	:: atomic { budget>0 && !dead[1] -> dead[1]=1; budget-- }
	:: atomic { budget>0 && !dead[2] && owner==2 -> dead[2]=1; budget-- }
	:: atomic { dead[1] && !dying[1] -> dying[1]=1 }
	:: atomic { dead[2] && !dying[2] -> dying[2]=1 }
	:: (!dead[1] || dying[1]) && (!dead[2] || dying[2]) && budget==0 -> break
	:: atomic { budget>0 && dead[1]==dying[1] && dead[2]==dying[2] -> budget=0 }	/* no further death */
	od;
	timeout;
	assert(published)
}
